// rt_sigqueueinfo and rt_tgsigqueueinfo deliver the sender's structure byte by
// byte, in a handler, to sigwaitinfo and to a signalfd.
// build: cc -O1
// run: no-oracle it sends itself SIGTRAP, which the oracle needs
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>
static unsigned hash(const void *data, int n) { unsigned h = 0; for (int i = 0; i < n; i++) h = h * 31 + ((const unsigned char *)data)[i]; return h; }
static volatile unsigned seen;
static void handler(int sig, siginfo_t *info, void *context) { seen = hash(info, 48); }
static void show(const char *what, long r) { printf("%s %ld %s\n", what, r, r < 0 ? strerrorname_np(errno) : "-"); }
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    const int signals[] = {SIGUSR1, SIGSEGV, SIGTRAP, SIGRTMIN + 2};
    for (int i = 0; i < 4; i++) {
        int s = signals[i];
        siginfo_t info;
        memset(&info, 0, sizeof info);
        info.si_signo = s;
        info.si_code = SI_QUEUE - i * 10;
        info.si_errno = 33;
        for (int k = 16; k < 48; k++) ((char *)&info)[k] = k * 3 + i;
        sigaction(s, &action, 0);
        seen = 0;
        show("queue", syscall(SYS_rt_sigqueueinfo, getpid(), s, &info));
        printf("%d same %d\n", s, seen == hash(&info, 48));
        seen = 0;
        show("thread queue", syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), s, &info));
        printf("%d same %d\n", s, seen == hash(&info, 48));
        if (s == SIGUSR1 || s > 32) {
            sigset_t set, old;
            siginfo_t back;
            sigemptyset(&set);
            sigaddset(&set, s);
            sigprocmask(SIG_BLOCK, &set, &old);
            syscall(SYS_rt_sigqueueinfo, getpid(), s, &info);
            printf("waitinfo %d same %d\n", sigwaitinfo(&set, &back), hash(&back, 48) == hash(&info, 48));
            sigprocmask(SIG_SETMASK, &old, 0);
        }
        info.si_code = SI_USER;
        seen = 0;
        show("as kill to itself", syscall(SYS_rt_sigqueueinfo, getpid(), s, &info));
        info.si_code = 5;
        show("as the kernel to its parent", syscall(SYS_rt_sigqueueinfo, getppid(), s, &info) < 0 ? -1 : 0);
    }
    return 0;
}
