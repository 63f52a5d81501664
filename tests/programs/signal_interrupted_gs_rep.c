// Signals that interrupt a repeated string instruction with an override of gs: it goes on,
// fs is the program's in the handler, and all is copied.
// build: cc -O1 -mfsgsbase
// run: needs fsgsbase
// run: no-oracle signals come when they come
#define _GNU_SOURCE
#include <immintrin.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
enum { SIZE = 4 << 20 };
static volatile sig_atomic_t signals, wrong;
static unsigned long fs;
static __thread int local = 42;
static void handler(int sig) { signals++, wrong += _readfsbase_u64() != fs || local != 42; }
int main(void) {
    unsigned char *from = malloc(SIZE), *to = malloc(SIZE);
    for (int i = 0; i < SIZE; i++) from[i] = i * 13 + (i >> 9);
    fs = _readfsbase_u64();
    signal(SIGALRM, handler);
    _writegsbase_u64((unsigned long)from - 4096);
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, 0);
    int rounds = 0, differ = 0;
    while (signals < 20 || rounds < 5) {
        memset(to, 0, SIZE);
        void *at = (void *)4096, *end = to;
        long count = SIZE;
        asm volatile("rep movsb %%gs:(%%rsi), %%es:(%%rdi)" : "+S"(at), "+D"(end), "+c"(count) : : "memory");
        differ += memcmp(from, to, SIZE) != 0 || count != 0 || end != to + SIZE;
        rounds++;
    }
    setitimer(ITIMER_REAL, &never, 0);
    printf("wrong fs %d, wrong copies %d, base %d\n", wrong, differ, _readgsbase_u64() == (unsigned long)from - 4096);
    return 0;
}
