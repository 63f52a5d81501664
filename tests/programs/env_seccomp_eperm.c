// Under a filter as containers have it, which answers EPERM to rseq, clone3,
// ptrace and userfaultfd: the errors are seen, a program starts, exits, forks
// and makes a thread by plain clone.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define DENY(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
static char stack[65536] __attribute__((aligned(16)));
static int child(void *arg) { *(int *)arg += 5; return 7; }
static void show(const char *what, long r) { printf("%s %ld %s\n", what, r, r < 0 ? strerrorname_np(errno) : "-"); }
int main(int argc, char **argv) {
    if (argc == 1) {
        struct sock_filter rules[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            DENY(SYS_rseq), DENY(SYS_clone3), DENY(SYS_ptrace), DENY(SYS_userfaultfd),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) { puts("no filters here"); return 0; }
        execl("/proc/self/exe", argv[0], "inside", (char *)0);
        return 1;
    }
    struct clone_args args = {.exit_signal = SIGCHLD};
    show("clone3", syscall(SYS_clone3, &args, sizeof args));
    show("ptrace", ptrace(PTRACE_TRACEME, 0, 0, 0));
    show("userfaultfd", syscall(SYS_userfaultfd, 0));
    int shared = 1, status;
    pid_t pid = clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, &shared);
    printf("clone %d\n", pid > 0 && waitpid(pid, &status, 0) == pid);
    printf("status %d shared %d\n", WEXITSTATUS(status), shared);
    fflush(stdout);
    if (!fork()) { execlp("sh", "sh", "-c", "echo from a shell; exit 4", (char *)0); _exit(1); }
    wait(&status);
    printf("shell %d\n", WEXITSTATUS(status));
    return 0;
}
