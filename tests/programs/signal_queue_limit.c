// RLIMIT_SIGPENDING: the queue takes no more than the limit (all programs of the user count), then EAGAIN;
// kill still arrives; what was queued is delivered.
// build: cc -O1
// run: no-oracle real-time signals: the ptrace library cannot pass them on
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int n, last;
static void handler(int sig, siginfo_t *info, void *context) { n++; last = info->si_code; }
int main(void) {
    struct rlimit limit;
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigset_t set, old;
    sigfillset(&set);
    sigaction(SIGRTMIN, &action, 0);
    sigaction(SIGUSR1, &action, 0);
    sigprocmask(SIG_BLOCK, &set, &old);
    getrlimit(RLIMIT_SIGPENDING, &limit);
    limit.rlim_cur = 40;
    setrlimit(RLIMIT_SIGPENDING, &limit);
    int sent = 0;
    while (sent < 100 && sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = sent}) == 0) sent++;
    printf("queued %d %s\n", sent <= 40, strerrorname_np(errno));
    printf("kill %d\n", kill(getpid(), SIGUSR1));
    sigprocmask(SIG_SETMASK, &old, 0);
    printf("arrived %d last %d\n", n - sent, last);
    fflush(stdout);
    limit.rlim_cur = 0;
    setrlimit(RLIMIT_SIGPENDING, &limit);
    n = 0;
    raise(SIGUSR1);
    printf("none allowed: raise %d", n);
    for (int i = 0; i < 50; i++) kill(getpid(), SIGUSR1);
    printf(" kill %d\n", n);
    return 0;
}
