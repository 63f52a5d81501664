// Threads with the smallest stack allowed and a stack of the program's own:
// the engine takes nothing of them; signals arrive there too.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: oracle own-functions
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static volatile int handled;
static void handler(int sig) { handled++; }
static void *run(void *arg) {
    volatile char pad[2000];
    memset((void *)pad, 1, sizeof pad);
    raise(SIGUSR1);
    return (void *)(long)(pad[100] + pad[1999]);
}
int main(void) {
    signal(SIGUSR1, handler);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 16384);
    char *own;
    posix_memalign((void **)&own, 4096, 32768);
    memset(own, 0x77, 32768);
    long sum = 0;
    for (int i = 0; i < 20; i++) {
        pthread_t t;
        void *r;
        pthread_create(&t, &attr, run, 0);
        pthread_join(t, &r);
        sum += (long)r;
    }
    pthread_attr_setstack(&attr, own, 32768);
    pthread_t t;
    void *r;
    pthread_create(&t, &attr, run, 0);
    pthread_join(t, &r);
    int untouched = 0;
    while (own[untouched] == 0x77) untouched++;
    printf("%ld %d room left %d\n", sum + (long)r, handled, untouched > 4096);
    return 0;
}
