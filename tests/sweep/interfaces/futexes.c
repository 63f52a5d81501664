// Two threads that take turns by futexes of all kinds: plain, with bits, priority inheritance.
#include <linux/futex.h>
static _Atomic int turn;
static int inherited;
static u64 digest;
static long futex(void *word, int op, int value, void *time, void *other, int last) {
    return syscall(SYS_futex, word, op, value, time, other, last);
}
static void step(int mine, int i) {
    while (turn != mine) futex(&turn, i & 1 ? FUTEX_WAIT_PRIVATE : FUTEX_WAIT_BITSET_PRIVATE, 1 - mine, 0, 0, i & 1 ? 0 : 4);
    if (futex(&inherited, FUTEX_LOCK_PI_PRIVATE, 0, 0, 0, 0) != 0) exit(4);
    digest = mix(digest, work((u64)(i * 2 + mine)));
    if (futex(&inherited, FUTEX_UNLOCK_PI_PRIVATE, 0, 0, 0, 0) != 0) exit(5);
    turn = 1 - mine;
    futex(&turn, i & 2 ? FUTEX_WAKE_PRIVATE : FUTEX_WAKE_BITSET_PRIVATE, 1, 0, 0, i & 2 ? 0 : -1);
}
static void *other(void *none) {
    for (int i = 0; i < 12; i++) step(1, i);
    return 0;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, other, 0);
    for (int i = 0; i < 12; i++) step(0, i);
    pthread_join(thread, 0);
    struct timespec past = {0, 1000};
    show("timeout", (u64)futex(&turn, FUTEX_WAIT_PRIVATE, turn, &past, 0, 0) * 1000 + (u64)errno);
    show("digest", digest);
}
