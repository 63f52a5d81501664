// Children that share memory and handlers, but are processes: what one sets, the other has, also
// after the child is gone, by exit or by exec; those that cannot be made take nothing along.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int seen;
static void first(int signal) { seen += signal; }
static void second(int signal) { seen += 1000 * signal; }
static int by_exit(void *argument) { signal(SIGUSR1, argument ? second : first); raise(SIGUSR1); return 3; }
static int by_exec(void *path) { signal(SIGUSR2, second); execl(path, path, "quiet", (char *)0); return 4; }
static int run(int (*work)(void *), void *argument, int flags) {
    static char stack[1 << 16] __attribute__((aligned(16)));
    int status = -1;
    pid_t pid = clone(work, stack + sizeof stack, flags | SIGCHLD, argument);
    if (pid < 0) return -errno;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}
int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "quiet")) return 5;
    int flags = CLONE_VM | CLONE_VFORK | CLONE_SIGHAND, total = 0;
    for (int round = 0; round < 20; round++) {
        total += run(by_exit, (void *)(long)(round & 1), flags);
        raise(SIGUSR1);
        free(malloc(4000));
        total += run(by_exec, argv[0], flags);
        raise(SIGUSR2);
        signal(SIGUSR2, first);
        raise(SIGUSR2);
        // Refused: a thread must share memory.
        total += run(by_exit, 0, CLONE_SIGHAND);
    }
    printf("%d %d\n", seen, total);
    return 0;
}
