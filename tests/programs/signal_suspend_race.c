// sigsuspend, ppoll and pselect open the mask and wait in one step: a signal
// that was sent before, by a child or a thread, is never slept through.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: timeout 40
// run: oracle own-functions
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int got;
static volatile long turn;
static pthread_t first;
static void handler(int sig) { got++; }
static void *sender(void *arg) { for (long i = 1; i <= 500; i++) { while (turn < i) ; pthread_kill(first, SIGUSR1); } return 0; }
int main(void) {
    sigset_t set, old;
    signal(SIGUSR1, handler);
    signal(SIGCHLD, handler);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &old);
    for (int i = 0; i < 60; i++) { int before = got; if (!fork()) _exit(0); while (got == before) sigsuspend(&old); wait(0); }
    printf("children %d\n", got);
    got = 0;
    first = pthread_self();
    pthread_t t;
    pthread_create(&t, 0, sender, 0);
    int poller = epoll_create1(0);
    struct epoll_event event;
    for (long i = 1; i <= 500; i++) {
        turn = i;
        while (got < i) switch (i & 3) {
            case 0: sigsuspend(&old); break;
            case 1: ppoll(0, 0, 0, &old); break;
            case 2: pselect(0, 0, 0, 0, 0, &old); break;
            default: epoll_pwait(poller, &event, 1, -1, &old);
        }
    }
    pthread_join(t, 0);
    printf("threads %d\n", got);
    return 0;
}
