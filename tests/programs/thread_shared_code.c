// Many threads run the same new code for the first time at the same moment,
// and meet at hot indirect calls.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: repeat 3
// run: oracle own-functions
// run: oracle-args 200
#include <stdlib.h>
#include <pthread.h>
#include <stdio.h>
#define F(n) __attribute__((noinline)) static unsigned g##n(unsigned x) { return x % (n + 2) ? x * n + 1 : x / (n + 1); }
#define T(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15) M(16) M(17) M(18) M(19)
T(F)
#define P(n) g##n,
static unsigned (*const table[])(unsigned) = {T(P)};
static pthread_barrier_t barrier;
static int rounds;
static void *run(void *arg) {
    unsigned x = 1;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < rounds; i++) x = table[(x >> 5 ^ i) % 20](x) + i;
    return (void *)(long)x;
}
int main(int argc, char **argv) {
    rounds = argc > 1 ? atoi(argv[1]) : 200000;
    pthread_t t[8];
    pthread_barrier_init(&barrier, 0, 8);
    for (int i = 0; i < 8; i++) pthread_create(&t[i], 0, run, 0);
    for (int i = 0; i < 8; i++) { void *r; pthread_join(t[i], &r); printf("%u\n", (unsigned)(long)r); }
    return 0;
}
