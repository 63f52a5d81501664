// A child that shares the memory but nothing else, and runs beside its parent:
// handlers, descriptors and exit are its own, memory is both's.
// build: cc -O1
// run: nondeterministic-counts
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char stack[3][65536] __attribute__((aligned(16)));
static atomic_int shared, parent_got, child_got, go;
static void in_parent(int sig) { parent_got++; }
static void in_child(int sig) { child_got++; }
static unsigned work(unsigned x) { for (int i = 0; i < 100000; i++) x = x * 1103515245 + 12345; return x; }
static int child(void *arg) {
    int n = (int)(long)arg;
    signal(SIGUSR1, in_child);
    close(0);
    shared += work(n) & 0xff;
    kill(getpid(), SIGUSR1);
    while (!go) sched_yield();
    return 30 + n;
}
int main(void) {
    signal(SIGUSR1, in_parent);
    int expect = 0, status;
    for (int round = 0; round < 5; round++) {
        pid_t pid[3];
        go = 0;
        for (long i = 0; i < 3; i++) { pid[i] = clone(child, stack[i] + sizeof stack[i], CLONE_VM | SIGCHLD, (void *)i); expect += work(i) & 0xff; }
        raise(SIGUSR1);
        work(round);
        go = 1;
        for (int i = 0; i < 3; i++) { waitpid(pid[i], &status, 0); printf("%d ", WEXITSTATUS(status)); }
        puts("");
    }
    printf("shared %d handlers %d %d descriptor %d\n", shared == expect, parent_got, child_got, fcntl(0, F_GETFD));
    return 0;
}
