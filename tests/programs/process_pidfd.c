// Descriptors for processes: signals, waiting and polling through them, and
// another process's descriptor fetched through one.
// build: cc -O1
// run: oracle own-functions
// run: no-counts a child is killed wherever it is by then
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int got, value;
static void handler(int sig, siginfo_t *info, void *context) { got = info->si_code; value = info->si_value.sival_int; }
int main(void) {
    int ends[2], ready[2];
    pipe(ends);
    pipe(ready);
    pid_t pid = fork();
    if (!pid) {
        struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
        sigset_t set, old;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, &old);
        sigaction(SIGUSR1, &action, 0);
        write(ready[1], "x", 1);
        sigsuspend(&old);
        printf("code %d value %d\n", got, value);
        fflush(stdout);
        for (;;) pause();
    }
    char byte;
    read(ready[0], &byte, 1);
    int fd = syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = {fd, POLLIN, 0};
    printf("alive %d\n", poll(&p, 1, 0));
    siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE, .si_value.sival_int = 4711, .si_pid = getpid(), .si_uid = getuid()};
    printf("signal %ld\n", syscall(SYS_pidfd_send_signal, fd, SIGUSR1, &info, 0));
    int theirs = syscall(SYS_pidfd_getfd, fd, ends[1], 0);
    printf("fetched %d\n", theirs > 0 && write(theirs, "abc", 3) == 3);
    char text[4] = {0};
    read(ends[0], text, 3);
    printf("read %s\n", text);
    usleep(50000);
    syscall(SYS_pidfd_send_signal, fd, SIGTERM, 0, 0);
    printf("dead %d\n", poll(&p, 1, 5000));
    memset(&info, 0, sizeof info);
    printf("waitid %d status %d code %d\n", waitid(P_PIDFD, fd, &info, WEXITED), info.si_status, info.si_code == CLD_KILLED);
    printf("gone %ld %s\n", syscall(SYS_pidfd_send_signal, fd, 0, 0, 0), strerrorname_np(errno));
    return 0;
}
