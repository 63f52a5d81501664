// Signals to the process while threads are being born and dying: all but the
// newest block it, and none is lost.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: timeout 40
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
static atomic_int got;
static void handler(int sig) { got++; }
static void *open_one(void *arg) { sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR1); pthread_sigmask(SIG_UNBLOCK, &set, 0); return 0; }
static void *busy(void *arg) { volatile unsigned x = 1; for (int i = 0; i < 3000; i++) x = x * 3 + i; return 0; }
int main(void) {
    signal(SIGUSR1, handler);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    int sent = 0;
    for (int i = 0; i < 150; i++) {
        pthread_t a, b;
        pthread_create(&a, 0, busy, 0);
        pthread_create(&b, 0, open_one, 0);
        kill(getpid(), SIGUSR1);
        sent++;
        pthread_join(a, 0);
        pthread_join(b, 0);
        if (got < sent) { pthread_create(&b, 0, open_one, 0); pthread_join(b, 0); }
        if (got != sent) { printf("lost at %d: %d\n", i, got); return 1; }
    }
    printf("%d\n", got);
    return 0;
}
