// Thousands of queued real-time signals arrive in order, with their values,
// when they are unblocked all at once; and with SA_NODEFER, nested, a hundred.
// build: cc -O1
// run: no-oracle real-time signals: the ptrace library cannot pass them on
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
static volatile int n, wrong, depth, deepest;
static void handler(int sig, siginfo_t *info, void *context) { wrong += info->si_value.sival_int != n || info->si_pid != getpid(); n++; }
static void nested(int sig, siginfo_t *info, void *context) { if (++depth > deepest) deepest = depth; n++; depth--; }
int main(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_SIGPENDING, &limit);
    int many = limit.rlim_cur > 4000 ? 2000 : 100;
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigaction(SIGRTMIN, &action, 0);
    sigprocmask(SIG_BLOCK, &set, &old);
    int sent = 0;
    for (int i = 0; i < many; i++) sent += sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}) == 0;
    sigprocmask(SIG_SETMASK, &old, 0);
    printf("%d %d wrong %d\n", sent, n, wrong);
    action.sa_sigaction = nested;
    action.sa_flags |= SA_NODEFER;
    sigaction(SIGRTMIN, &action, 0);
    sigprocmask(SIG_BLOCK, &set, 0);
    n = 0;
    for (int i = 0; i < 100; i++) sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i});
    sigprocmask(SIG_SETMASK, &old, 0);
    printf("%d depth %d\n", n, deepest);
    return 0;
}
