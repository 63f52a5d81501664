// Contexts of a vfork child, which runs on its parent's stack: it goes on where
// the parent is, and the parent goes on there when it has ended.
// build: cc -O1 -fno-inline
// run: oracle
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int n;
static void leaf(void) { n++; }
static void work(void) { leaf(); leaf(); asm volatile(""); }
static void spawn(void) {
    pid_t pid = vfork();
    if (pid == 0) { work(); _exit(0); }
    waitpid(pid, 0, 0);
    work();
}
int main(void) {
    for (int i = 0; i < 3; i++) spawn();
    printf("%d\n", n);
    return 0;
}
