// fork, exit statuses, a child killed, a child stopped and continued, memory
// private after fork, grandchildren, and wait reporting each exactly.
// build: cc -O1
// run: oracle own-functions
// run: no-counts a child is killed wherever it is by then
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static int value = 1;
static void show(pid_t pid, int options) {
    int status;
    pid_t got = waitpid(pid, &status, options);
    printf("%d exited %d %d signaled %d %d stopped %d %d continued %d\n", got == pid, WIFEXITED(status), WIFEXITED(status) ? WEXITSTATUS(status) : 0,
        WIFSIGNALED(status), WIFSIGNALED(status) ? WTERMSIG(status) : 0, WIFSTOPPED(status), WIFSTOPPED(status) ? WSTOPSIG(status) : 0, WIFCONTINUED(status));
    fflush(stdout);
}
int main(void) {
    setvbuf(stdout, 0, _IOFBF, 4096);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) { value = 2; _exit(getppid() > 1 ? 33 : 34); }
    show(pid, 0);
    printf("value %d\n", value);
    fflush(stdout);
    pid = fork();
    if (!pid) for (;;) pause();
    kill(pid, SIGSTOP);
    show(pid, WUNTRACED);
    kill(pid, SIGCONT);
    show(pid, WCONTINUED);
    kill(pid, SIGTERM);
    show(pid, 0);
    struct rlimit core = {0, 0};
    setrlimit(RLIMIT_CORE, &core);
    pid = fork();
    if (!pid) abort();
    show(pid, 0);
    pid = fork();
    if (!pid) { *(volatile int *)0 = 1; }
    show(pid, 0);
    pid = fork();
    if (!pid) { pid_t inner = fork(); if (!inner) _exit(7); int s; waitpid(inner, &s, 0); _exit(WEXITSTATUS(s) * 2); }
    show(pid, 0);
    siginfo_t info;
    pid = fork();
    if (!pid) _exit(3);
    waitid(P_PID, pid, &info, WEXITED);
    printf("waitid %d %d %d\n", info.si_code == CLD_EXITED, info.si_status, info.si_pid == pid);
    struct rusage usage;
    printf("none left %d\n", wait4(-1, 0, 0, &usage) == -1);
    return 0;
}
