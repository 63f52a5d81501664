// Several threads end the process at the same moment, by exit_group, by exec
// and by a signal, in forty children: each ends one of these ways, at once.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_barrier_t barrier;
static char *own;
static void *leave(void *arg) {
    pthread_barrier_wait(&barrier);
    switch ((long)arg) {
    case 0: case 1: syscall(SYS_exit_group, 7); break;
    case 2: execl("/proc/self/exe", own, "inside", (char *)0); break;
    default: kill(getpid(), SIGTERM);
    }
    return 0;
}
int main(int argc, char **argv) {
    if (argc > 1) return 7;
    own = argv[0];
    int good = 0;
    for (int i = 0; i < 40; i++) {
        if (!fork()) {
            int n = 2 + i % 3;
            pthread_t t;
            pthread_barrier_init(&barrier, 0, n);
            for (long k = 1; k < n; k++) pthread_create(&t, 0, leave, (void *)k);
            leave(0);
        }
        int status;
        wait(&status);
        good += (WIFEXITED(status) && WEXITSTATUS(status) == 7) || (i % 3 == 2 && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    }
    printf("%d\n", good);
    return 0;
}
