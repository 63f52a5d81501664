// Hundreds of short-lived threads, joined and detached, each with TLS.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: oracle own-functions
// run: oracle-args 5
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static __thread int local = 5;
static atomic_int sum, detached;
static void *run(void *arg) { local += (int)(long)arg; sum += local; return (void *)(long)local; }
static void *away(void *arg) { local++; detached += local; return 0; }
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 60;
    long results = 0;
    for (int round = 0; round < rounds; round++) {
        pthread_t t[8], d;
        for (long i = 0; i < 8; i++) pthread_create(&t[i], 0, run, (void *)(i + round));
        for (int i = 0; i < 8; i++) { void *r; pthread_join(t[i], &r); results += (long)r; }
        pthread_create(&d, 0, away, 0);
        pthread_detach(d);
    }
    while (detached < 6 * rounds) usleep(100);
    printf("%d %ld %d %d\n", sum, results, local, detached);
    return 0;
}
