// Real-time signals queue with their values, in order, lowest number first,
// thousands of them; ordinary ones merge.
// build: cc -O1
// run: no-oracle real-time signals: the ptrace library cannot pass them on
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static int n, values[4000], last, disorder, ordinary;
static void handler(int sig, siginfo_t *info, void *context) {
    if (sig == SIGUSR1) { ordinary++; return; }
    if (sig < last) disorder++;
    last = sig;
    values[n++] = info->si_value.sival_int;
}
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigset_t set, old;
    sigfillset(&action.sa_mask);
    sigemptyset(&set);
    for (int i = 0; i < 3; i++) { sigaction(SIGRTMIN + i, &action, 0); sigaddset(&set, SIGRTMIN + i); }
    sigaction(SIGUSR1, &action, 0);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &old);
    int sent = 0;
    for (int i = 0; i < 1500; i++) { sent += sigqueue(getpid(), SIGRTMIN + 2 - i % 3, (union sigval){.sival_int = i}) == 0; kill(getpid(), SIGUSR1); }
    sigprocmask(SIG_SETMASK, &old, 0);
    unsigned h = 0;
    for (int i = 0; i < n; i++) h = h * 31 + values[i];
    printf("%d %d %08x disorder %d ordinary %d\n", sent, n, h, disorder, ordinary);
    return 0;
}
