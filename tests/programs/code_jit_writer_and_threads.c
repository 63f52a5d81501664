// A just-in-time compiler in a thread of its own: it makes functions, passes
// them to eight others through a pointer, waits until none runs the old one,
// and uses the same memory again.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: timeout 60
// run: oracle own-functions
// run: oracle-args 5
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define READERS 8
static unsigned char *slots;
static _Atomic(unsigned char *) current;
static _Atomic(unsigned char *) in_use[READERS];
static atomic_int stop, bad;
static atomic_long calls;
static void *reader(void *arg) {
    int mine = (int)(long)arg;
    while (!stop) {
        unsigned char *p;
        do { p = current; in_use[mine] = p; } while (p != current);
        int r = ((int (*)(void))p)();
        if (r % 8 != (p - slots) / 256) bad++;
        in_use[mine] = 0;
        calls++;
        if (calls % 64 == 0) sched_yield();
    }
    return 0;
}
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    slots = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t t[READERS];
    for (int n = 0; n < rounds; n++) {
        int slot = n % 8, value = n * 8 + slot;
        unsigned char *p = slots + slot * 256;
        for (int i = 0; i < READERS; i++) while (in_use[i] == p) sched_yield();
        unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xff, 0xc0, 0xff, 0xc8, 0xc3};
        memcpy(code + 1, &value, 4);
        memcpy(p, code, sizeof code);
        current = p;
        if (!n) for (long i = 0; i < READERS; i++) pthread_create(&t[i], 0, reader, (void *)i);
        long before = calls;
        while (calls < before + 20) sched_yield();
    }
    stop = 1;
    for (int i = 0; i < READERS; i++) pthread_join(t[i], 0);
    printf("bad %d\n", bad);
    return 0;
}
