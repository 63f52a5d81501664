// SIGCHLD with siginfo for exit, kill, stop and continue; SA_NOCLDSTOP;
// ignored SIGCHLD reaps by itself.
// build: cc -O1
// run: oracle own-functions
// run: no-counts how often waiting is interrupted is another number
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int count, code, status;
static volatile pid_t who;
static void handler(int sig, siginfo_t *info, void *context) { count++; code = info->si_code; status = info->si_status; who = info->si_pid; }
static void await(int n) { sigset_t set, old; sigemptyset(&set); sigaddset(&set, SIGCHLD); sigprocmask(SIG_BLOCK, &set, &old); while (count < n) sigsuspend(&old); sigprocmask(SIG_SETMASK, &old, 0); }
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGCHLD, &action, 0);
    pid_t pid = fork();
    if (!pid) _exit(12);
    await(1);
    printf("%d %d %d\n", code == CLD_EXITED, status, who == pid);
    wait(0);
    pid = fork();
    if (!pid) for (;;) pause();
    kill(pid, SIGSTOP); await(2);
    printf("%d %d\n", code == CLD_STOPPED, status == SIGSTOP);
    kill(pid, SIGCONT); await(3);
    printf("%d %d\n", code == CLD_CONTINUED, status == SIGCONT);
    kill(pid, SIGKILL); await(4);
    printf("%d %d\n", code == CLD_KILLED, status == SIGKILL);
    wait(0);
    signal(SIGCHLD, SIG_IGN);
    pid = fork();
    if (!pid) _exit(1);
    printf("%d %d\n", wait(0), errno == ECHILD);
    return 0;
}
