// Four threads jump through thousands of addresses, each at first unknown, in
// orders of their own, while one of them throws code away and makes it anew.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: timeout 60
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#define TARGETS 2000
static unsigned char *fixed, *fresh;
static void make(unsigned char *at, int value) { unsigned char code[] = {0x8d, 0x87, 0, 0, 0, 0, 0xc3}; memcpy(code + 2, &value, 4); memcpy(at, code, 7); }
static void *work(void *arg) {
    unsigned seed = (unsigned)(long)arg + 1, sum = 0;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1103515245 + 12345;
        unsigned t = (seed >> 8) % TARGETS;
        sum = sum * 31 + ((unsigned (*)(unsigned))(fixed + t * 16))(i);
        if (arg == 0 && i % 1000 == 0) {
            mprotect(fresh, 4096, PROT_READ | PROT_WRITE);
            for (int k = 0; k < 256; k++) make(fresh + k * 16, i + k);
            mprotect(fresh, 4096, PROT_READ | PROT_EXEC);
            for (int k = 0; k < 256; k++) sum += ((unsigned (*)(unsigned))(fresh + k * 16))(k) - (i + 2 * k);
        }
    }
    return (void *)(unsigned long)sum;
}
int main(void) {
    fixed = mmap(0, TARGETS * 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fresh = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < TARGETS; i++) make(fixed + i * 16, i * 7);
    mprotect(fixed, TARGETS * 16, PROT_READ | PROT_EXEC);
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++) { void *r; pthread_join(t[i], &r); printf("%08lx\n", (unsigned long)r); }
    return 0;
}
