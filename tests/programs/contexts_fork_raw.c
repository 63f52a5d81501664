// Contexts of children that are forked by syscall(2), behind other system calls that come
// back to the same place.
// build: cc -O1 -fno-inline -fno-optimize-sibling-calls
// run: oracle own-functions
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long n;
static void leaf(void) { n++; }
static void ask(void) { n += syscall(SYS_getpid) > 0; leaf(); }
static void deeper(void) { n += syscall(SYS_getppid) > 0; leaf(); }
static long make(void) { ask(); long pid = syscall(SYS_fork); leaf(); return pid; }
static int child(int depth) {
    deeper();
    fflush(stdout);
    long pid = make();
    if (!pid) { leaf(); if (depth) child(depth - 1); _exit(7); }
    int status;
    waitpid(pid, &status, 0);
    leaf();
    return WEXITSTATUS(status);
}
static int other(void) { ask(); return child(0); }
int main(void) {
    deeper();
    printf("%d\n", child(1));
    printf("%d\n", other());
    ask();
    printf("%ld\n", n);
    return 0;
}
