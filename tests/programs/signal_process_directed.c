// A signal to the process goes to the one thread that does not block it,
// sigwait in a thread takes it from there, kill finds a computing thread.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: oracle own-functions
// run: oracle-args 10
#define _GNU_SOURCE
#include <stdlib.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static pthread_t chosen;
static volatile int count, elsewhere, stop;
static void handler(int sig) { if (pthread_equal(pthread_self(), chosen)) count++; else elsewhere++; }
static void *open_thread(void *arg) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &set, 0);
    volatile unsigned x = 1;
    while (!stop) x = x * 3 + 1;
    return 0;
}
static void *waiter(void *arg) {
    sigset_t set;
    int sig, taken = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    while (taken < 50) { sigwait(&set, &sig); taken += sig == SIGUSR2; *(volatile int *)arg = taken; }
    return 0;
}
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    signal(SIGUSR1, handler);
    volatile int taken = 0;
    pthread_t t;
    pthread_create(&chosen, 0, open_thread, 0);
    pthread_create(&t, 0, waiter, (void *)&taken);
    for (int i = 1; i <= rounds; i++) { kill(getpid(), SIGUSR1); while (count + elsewhere < i) usleep(20); }
    for (int i = 1; i <= 50; i++) { kill(getpid(), SIGUSR2); while (taken < i) usleep(10); }
    stop = 1;
    pthread_join(chosen, 0);
    pthread_join(t, 0);
    printf("%d %d %d\n", count, elsewhere, taken);
    return 0;
}
