// Strict seccomp: reading, writing, the return from a handler and exit go on, in code that
// never ran before, too; anything else, also the time-stamp counter, ends the thread.
// build: cc -O1
// run: oracle own-functions
// run: oracle-args 30
// run: no-counts it waits for a signal in a loop
#define _GNU_SOURCE
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>
static volatile int handled;
static void handler(int sig) { handled = 1; if (write(1, "handler\n", 8) != 8) syscall(SYS_exit, 9); }
static int way, count = 500;
static __attribute__((noinline)) void inside(int fd) {
    int numbers[500];
    char line[64];
    if (way & 1) prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
    else if (syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, 0)) syscall(SYS_exit, 8);
    unsigned seed = 1;
    for (int i = 0; i < count; i++) { seed = seed * 1103515245 + 12345; numbers[i] = seed >> 8; }
    for (int i = 1; i < count; i++) for (int k = i; k && numbers[k - 1] > numbers[k]; k--) { int n = numbers[k]; numbers[k] = numbers[k - 1]; numbers[k - 1] = n; }
    for (int i = 1; i < count; i++) if (numbers[i - 1] > numbers[i]) syscall(SYS_exit, 7);
    int got = read(fd, line, sizeof line);
    if (write(1, line, got) != got) syscall(SYS_exit, 6);
    switch (way >> 1) {
    case 0: syscall(SYS_exit, 5); break;
    case 1: syscall(SYS_getpid); break;
    case 2: syscall(SYS_exit_group, 4); break;
    case 3: line[0] = __rdtsc(); break;
    case 4: while (!handled) continue; break;
    case 5: *(volatile int *)0 = 1; break;
    case 6: prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0); break;
    case 7: syscall(SYS_mmap, 0, 4096, 3, 0x22, -1, 0); break;
    }
    syscall(SYS_exit, 3);
}
int main(int argc, char **argv) {
    if (argc > 1) count = atoi(argv[1]);
    setvbuf(stdout, 0, _IOLBF, 0);
    struct itimerval soon = {{0, 0}, {0, 30000}};
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (way = 0; way < 16; way++) {
        int fds[2], status;
        if (pipe(fds) || write(fds[1], "through a pipe\n", 15) != 15) return 1;
        if (!fork()) { signal(SIGALRM, handler); if (way >> 1 == 4) setitimer(ITIMER_REAL, &soon, 0); inside(fds[0]); }
        wait(&status);
        printf("%d: exit %d signal %d\n", way, WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        close(fds[0]);
        close(fds[1]);
    }
    // Not with arguments, and not beside a filter.
    printf("flags %ld\n", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, 0));
    printf("argument %ld\n", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, "x"));
    printf("unknown %d\n", prctl(PR_SET_SECCOMP, 77, 0));
    return 0;
}
