// The mask edited in the handler's context is the mask after it returns;
// signals pending then arrive at once; raise is seen before it returns.
// build: cc -O1
// run: oracle
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>
static int log_[20], n;
static void one(int sig, siginfo_t *info, void *context) { log_[n++] = sig; sigaddset(&((ucontext_t *)context)->uc_sigmask, SIGUSR2); raise(SIGUSR2); log_[n++] = -sig; }
static void two(int sig) { log_[n++] = sig; }
int main(void) {
    struct sigaction action = {.sa_sigaction = one, .sa_flags = SA_SIGINFO};
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &action, 0);
    signal(SIGUSR2, two);
    raise(SIGUSR1);
    log_[n++] = 100;
    sigset_t set;
    sigprocmask(SIG_BLOCK, 0, &set);
    log_[n++] = 200 + sigismember(&set, SIGUSR2);
    sigemptyset(&set);
    sigprocmask(SIG_SETMASK, &set, 0);
    log_[n++] = 300;
    for (int i = 0; i < n; i++) printf("%d ", log_[i]);
    printf("\n");
    return 0;
}
