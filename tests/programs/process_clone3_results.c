// What clone3 leaves: a descriptor for the child, its number in parent and
// child, default handlers where asked for, a parent's sibling, and a copy.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define CLEAR_SIGHAND 0x100000000ULL
static volatile int got;
static void handler(int sig) { got++; }
int main(void) {
    volatile int *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = -1, parent = 0, child = 0, status;
    struct clone_args args = {.flags = CLONE_PIDFD | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID, .exit_signal = SIGCHLD, .pidfd = (long)&fd, .parent_tid = (long)&parent, .child_tid = (long)&child};
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (!pid) { shared[0] = child == getpid(); _exit(4); }
    struct pollfd p = {fd, POLLIN, 0};
    printf("descriptor %d poll %d\n", fd, poll(&p, 1, 5000));
    siginfo_t info = {0};
    printf("waitid %d", waitid(P_PIDFD, fd, &info, WEXITED));
    printf(" status %d numbers %d %d mine %d\n", info.si_status, parent == pid, shared[0], child);
    close(fd);
    signal(SIGUSR1, handler);
    signal(SIGUSR2, SIG_IGN);
    signal(SIGTRAP, handler);
    signal(SIGSEGV, handler);
    args = (struct clone_args){.flags = CLEAR_SIGHAND, .exit_signal = SIGCHLD};
    for (int i = 0; i < 5; i++) {
        fflush(stdout);
        pid = syscall(SYS_clone3, &args, sizeof args);
        if (!pid) {
            struct sigaction a, b, c;
            sigaction(SIGUSR1, 0, &a);
            sigaction(SIGUSR2, 0, &b);
            sigaction(SIGTRAP, 0, &c);
            if (i == 0) { printf("child: %d %d %d\n", a.sa_handler == SIG_DFL, b.sa_handler == SIG_IGN, c.sa_handler == SIG_DFL); fflush(stdout); }
            if (i == 1) raise(SIGUSR1);
            if (i == 2) raise(SIGUSR2);
            if (i == 3) asm volatile("int3");
            if (i == 4) { char line[] = "grown\n"; volatile char *big = __builtin_alloca(1 << 20); for (int k = 0; k < 1 << 20; k += 4096) big[k] = k; write(1, line, 6); *(volatile int *)0 = 1; }
            _exit(6);
        }
        if (pid < 0) { printf("clone3 %s\n", strerrorname_np(errno)); continue; }
        waitpid(pid, &status, 0);
        printf("%d: status %x\n", i, status & ~0x80);
    }
    raise(SIGUSR1);
    printf("parent %d\n", got);
    return 0;
}
