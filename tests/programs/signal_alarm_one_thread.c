// An interval timer's signal is blocked in all threads but one, which computes:
// it alone gets every one.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
static volatile int got, wrong, stop;
static volatile long chosen;
static void handler(int sig) { if (syscall(SYS_gettid) != chosen) wrong++; got++; }
static void *blocked(void *arg) { volatile unsigned x = 1; while (!stop) x = x * 3 + 1; return 0; }
static void *open_one(void *arg) {
    chosen = syscall(SYS_gettid);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &set, 0);
    volatile unsigned x = 1;
    while (got < 80) x = x * 3 + 1;
    pthread_sigmask(SIG_BLOCK, &set, 0);
    return 0;
}
int main(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    signal(SIGALRM, handler);
    pthread_t t[3];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, blocked, 0);
    pthread_create(&t[2], 0, open_one, 0);
    struct itimerval timer = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &timer, 0);
    pthread_join(t[2], 0);
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    printf("enough %d wrong thread %d\n", got >= 80, wrong);
    return 0;
}
