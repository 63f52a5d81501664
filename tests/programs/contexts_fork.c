// Contexts of forked children: they go on where their parent is, below tail
// callers and in a signal handler too, and count only what they do themselves.
// build: cc -O1 -fno-inline -fno-optimize-sibling-calls
// run: oracle own-functions
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#define TAIL __attribute__((optimize("optimize-sibling-calls")))
static volatile int n;
static void leaf(void) { n++; }
static void work(void) { leaf(); leaf(); }
static int child(int depth) {
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) { work(); if (depth) child(depth - 1); _exit(n); }
    int status;
    waitpid(pid, &status, 0);
    leaf();
    return WEXITSTATUS(status);
}
TAIL static int last(int depth) { work(); asm volatile(""); return child(depth); }
TAIL static int through(int depth) { leaf(); asm volatile(""); return last(depth); }
static void on_usr1(int sig) { work(); child(0); work(); }
int main(void) {
    printf("%d\n", child(2));
    printf("%d\n", through(1));
    signal(SIGUSR1, on_usr1);
    raise(SIGUSR1);
    if (!fork()) { work(); return 3; }
    wait(0);
    work();
    printf("%d\n", n);
    return 0;
}
