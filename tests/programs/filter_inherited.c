// Filters go on over fork, threads and exec, and exec'd programs add their own: the verdict
// is the most severe. One that is asked about exec decides before anything else does.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void install(long nr, unsigned verdict) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, verdict),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) { puts("no filters here"); exit(0); }
}
static void show(const char *who) {
    long a = syscall(SYS_getppid), e = errno;
    if (a > 0) a = e = 0;
    errno = 0;
    long b = syscall(SYS_rt_sigpending, 0, 0);
    int f = errno;
    errno = 0;
    long c = syscall(SYS_mremap, 0, 0, 0, 0);
    printf("%s: %ld %ld, %ld %d, %ld %d, mode %d\n", who, a, e, b, f, c, errno, prctl(PR_GET_SECCOMP));
    fflush(stdout);
}
static char stack[65536] __attribute__((aligned(16)));
static int shared(void *arg) { show("clone"); _exit(6); }
static void end(const char *what) {
    int status;
    wait(&status);
    printf("%s: exit %d signal %d\n", what, WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    fflush(stdout);
}
int main(int argc, char **argv) {
    setvbuf(stdout, 0, _IOLBF, 0);
    if (argc == 3) { show("third"); execl("/no/such/file", "x", (char *)0); printf("exec %d\n", errno); return 9; }
    if (argc == 2) {
        show("second");
        install(SYS_mremap, SECCOMP_RET_ERRNO | 55);
        install(SYS_getppid, SECCOMP_RET_ERRNO | 66);
        show("second");
        if (!fork()) { show("fork"); execl("/proc/self/exe", argv[0], "a", "b", (char *)0); _exit(1); }
        end("third");
        if (clone(shared, stack + sizeof stack, CLONE_VM | SIGCHLD, 0) < 0) return 1;
        end("clone");
        if (!vfork()) { execl("/bin/sh", "sh", "-c", "echo from a shell; exit 7", (char *)0); _exit(1); }
        end("shell");
        install(SYS_execve, SECCOMP_RET_ERRNO | 12);
        if (!fork()) { execl("/bin/sh", "sh", "-c", "exit 8", (char *)0); printf("execve %d\n", errno); _exit(2); }
        end("forbidden");
        if (!fork()) { execl("/no/such/file", "sh", (char *)0); printf("execve %d\n", errno); _exit(2); }
        end("forbidden");
        if (!fork()) { install(SYS_execve, SECCOMP_RET_KILL_PROCESS); execl("/no/such/file", "sh", (char *)0); _exit(2); }
        end("killed");
        install(SYS_clone, SECCOMP_RET_ERRNO | 31);
        install(SYS_fork, SECCOMP_RET_ERRNO | 32);
        install(SYS_vfork, SECCOMP_RET_ERRNO | 33);
        install(SYS_clone3, SECCOMP_RET_ERRNO | 34);
        long calls[] = {SYS_fork, SYS_vfork, SYS_clone3};
        for (int i = 0; i < 3; i++) { long r = syscall(calls[i], 0, 0); printf("%ld: %ld %d\n", calls[i], r, errno); }
        return 0;
    }
    show("first");
    install(SYS_getppid, SECCOMP_RET_ERRNO | 77);
    install(SYS_rt_sigpending, SECCOMP_RET_ERRNO | 44);
    show("first");
    execl("/proc/self/exe", argv[0], "again", (char *)0);
    return 1;
}
