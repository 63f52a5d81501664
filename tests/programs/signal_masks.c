// sigprocmask, sigpending, sigsuspend, sigtimedwait, signalfd, ppoll with a
// mask, bad arguments; a blocked signal waits in the kernel with its data.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile int got, blocked_inside;
static void handler(int sig) { got++; sigset_t now; sigprocmask(SIG_BLOCK, 0, &now); blocked_inside = sigismember(&now, SIGUSR1) * 2 + sigismember(&now, SIGUSR2); }
static void show(const char *what, long r) { printf("%s %ld %s\n", what, r, r < 0 ? strerrorname_np(errno) : "-"); }
int main(void) {
    sigset_t set, old, pending, none;
    signal(SIGUSR1, handler);
    signal(SIGUSR2, handler);
    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_BLOCK, &set, &old);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR2);
    sigpending(&pending);
    printf("pending %d %d %d got %d\n", sigismember(&pending, SIGUSR1), sigismember(&pending, SIGUSR2), sigismember(&pending, SIGSEGV), got);
    raise(SIGSEGV);
    sigpending(&pending);
    printf("pending segv %d\n", sigismember(&pending, SIGSEGV));
    sigset_t segv;
    sigemptyset(&segv);
    sigaddset(&segv, SIGSEGV);
    siginfo_t info;
    struct timespec second = {1, 0}, zero = {0, 0};
    show("timedwait segv", sigtimedwait(&segv, &info, &second));
    sigset_t wait = set;
    sigdelset(&wait, SIGUSR1);
    show("suspend", sigsuspend(&wait));
    printf("got %d inside %d\n", got, blocked_inside);
    show("timedwait", sigtimedwait(&set, &info, &second));
    printf("pid %d code %d\n", info.si_pid == getpid(), info.si_code == SI_USER);
    show("timedwait nothing", sigtimedwait(&set, &info, &zero));
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    struct signalfd_siginfo ssi;
    show("signalfd empty", read(fd, &ssi, sizeof ssi));
    sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 4711});
    show("signalfd", read(fd, &ssi, sizeof ssi) == sizeof ssi);
    printf("signo %d int %d\n", ssi.ssi_signo, ssi.ssi_int);
    kill(getpid(), SIGUSR1);
    show("ppoll", ppoll(0, 0, &second, &none));
    printf("got %d\n", got);
    show("bad how", syscall(SYS_rt_sigprocmask, 99, &set, 0, 8));
    show("bad size", syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, 0, 16));
    show("bad pointer", syscall(SYS_rt_sigprocmask, SIG_BLOCK, 8, 0, 8));
    show("probe", syscall(SYS_rt_sigprocmask, ~0, 8, 0, 8));
    show("sigaction kill", syscall(SYS_rt_sigaction, SIGKILL, &info, 0, 8));
    show("sigaction 65", syscall(SYS_rt_sigaction, 65, 0, &info, 8));
    show("sigaction pointer", syscall(SYS_rt_sigaction, SIGHUP, 8, 0, 8));
    show("sigaction size", syscall(SYS_rt_sigaction, SIGHUP, 0, 0, 4));
    sigprocmask(SIG_SETMASK, &old, 0);
    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, 0);
    sigprocmask(SIG_SETMASK, &old, &set);
    int n = 0;
    for (int s = 1; s <= 64; s++) n += sigismember(&set, s) == 1;
    printf("full mask %d\n", n);
    return 0;
}
