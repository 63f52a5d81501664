// The signals of faults, sent by kill while blocked, wait like all others:
// sigsuspend, ppoll and sigtimedwait see them, and their information is kept.
// build: cc -O1
// run: no-oracle synchronous signals that are sent do not all reach a stepped program
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static volatile int got, code, value;
static void handler(int sig, siginfo_t *info, void *context) { got++; code = info->si_code; value = info->si_value.sival_int; }
int main(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    struct timespec none = {2, 0};
    alarm(15);
    for (int i = 0; i < 6; i++) {
        int s = signals[i];
        sigset_t set, old;
        sigemptyset(&set);
        sigaddset(&set, s);
        sigaction(s, &action, 0);
        sigprocmask(SIG_BLOCK, &set, &old);
        got = 0;
        sigqueue(getpid(), s, (union sigval){.sival_int = 100 + i});
        siginfo_t info = {0};
        int r = sigtimedwait(&set, &info, &none);
        printf("%d: timedwait %d code %d value %d", s, r, info.si_code, info.si_value.sival_int);
        sigqueue(getpid(), s, (union sigval){.sival_int = 200 + i});
        sigprocmask(SIG_SETMASK, &old, 0);
        printf(" unblocked %d code %d value %d", got, code, value);
        sigprocmask(SIG_BLOCK, &set, 0);
        kill(getpid(), s);
        r = ppoll(0, 0, &none, &old);
        printf(" ppoll %d %d code %d", r, got, code);
        fflush(stdout);
        sigqueue(getpid(), s, (union sigval){.sival_int = 300 + i});
        r = sigsuspend(&old);
        printf(" suspend %d %d code %d value %d\n", r, got, code, value);
        sigprocmask(SIG_SETMASK, &old, 0);
    }
    return 0;
}
