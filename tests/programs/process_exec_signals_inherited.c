// Across exec: the mask and what is ignored stay, handlers become default,
// pending signals stay pending, the alternate stack and timers' fate are the
// kernel's. For every signal.
// build: cc -O1
// run: no-oracle real-time signals are not passed on by the tracer
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static void handler(int sig) {}
static volatile int got;
static void count(int sig, siginfo_t *info, void *context) { got++; printf("arrived %d code %d value %d\n", sig, info->si_code, info->si_value.sival_int); }
int main(int argc, char **argv) {
    if (argc == 1) {
        sigset_t set;
        sigemptyset(&set);
        for (int s = 1; s <= 64; s++) {
            if (s % 3 == 0) signal(s, SIG_IGN);
            if (s % 3 == 1) signal(s, handler);
            if (s % 2) sigaddset(&set, s);
        }
        sigprocmask(SIG_SETMASK, &set, 0);
        stack_t alt = {.ss_sp = malloc(65536), .ss_size = 65536};
        sigaltstack(&alt, 0);
        sigqueue(getpid(), 35, (union sigval){.sival_int = 77});
        sigqueue(getpid(), 35, (union sigval){.sival_int = 78});
        kill(getpid(), SIGTRAP);
        kill(getpid(), SIGTERM + 2);
        execl("/proc/self/exe", argv[0], "inside", (char *)0);
        return 1;
    }
    sigset_t mask, pending;
    sigprocmask(SIG_BLOCK, 0, &mask);
    sigpending(&pending);
    for (int s = 1; s <= 64; s++) {
        struct sigaction action;
        if (s == 32 || s == 33 || sigaction(s, 0, &action)) { printf("%d: none\n", s); continue; }
        printf("%d: %s%s%s flags %x\n", s, action.sa_handler == SIG_IGN ? "ignored" : action.sa_handler == SIG_DFL ? "default" : "handled",
               sigismember(&mask, s) ? " blocked" : "", sigismember(&pending, s) ? " pending" : "", action.sa_flags);
    }
    stack_t alt;
    sigaltstack(0, &alt);
    printf("alternate stack %d\n", alt.ss_flags == SS_DISABLE);
    struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO};
    sigaction(35, &action, 0);
    sigaction(SIGTRAP, &action, 0);
    sigemptyset(&mask);
    sigprocmask(SIG_SETMASK, &mask, 0);
    printf("got %d\n", got);
    return 0;
}
