// clone(CLONE_VM | CLONE_VFORK) without a stack, as Go's runtime starts
// children: the child runs on its parent's stack until it execs or ends.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int shared;
static __attribute__((noinline)) pid_t spawn(int how, char *program) {
    pid_t pid;
    long flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
    register long r10 asm("r10") = 0;
    register long r8 asm("r8") = 0;
    asm volatile("syscall" : "=a"(pid) : "a"(SYS_clone), "D"(flags), "S"(0L), "d"(0L), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    if (pid == 0) {
        shared++;
        if (how) { char *argv[] = {program, "inside", 0}, *envp[] = {0}; syscall(SYS_execve, how == 1 ? "/proc/self/exe" : "./missing", argv, envp); }
        syscall(SYS_exit_group, 20 + how + (how == 2 && errno == ENOENT));
    }
    return pid;
}
int main(int argc, char **argv) {
    if (argc > 1) return 9;
    int seen[60] = {0};
    for (int i = 0; i < 45; i++) {
        int status;
        pid_t pid = spawn(i % 3, argv[0]);
        if (waitpid(pid, &status, 0) == pid && WIFEXITED(status)) seen[WEXITSTATUS(status)]++;
    }
    for (int i = 0; i < 60; i++) if (seen[i]) printf("%d: %d\n", i, seen[i]);
    printf("shared %d\n", shared);
    return 0;
}
