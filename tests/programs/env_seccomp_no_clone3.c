// Under a filter that answers ENOSYS to clone3 the C library falls back to
// clone: threads and posix_spawn work.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: oracle own-functions
// run: oracle-args 1
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static __thread int own;
static void *work(void *arg) { for (int i = 0; i < 1000; i++) own += (long)arg; return (void *)(long)own; }
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) { puts("no filters here"); return 0; }
    long sum = 0;
    for (int round = 0; round < rounds; round++) {
        pthread_t t[4];
        for (long i = 0; i < 4; i++) if (pthread_create(&t[i], 0, work, (void *)(i + 1))) { puts("no thread"); return 1; }
        for (int i = 0; i < 4; i++) { void *r; pthread_join(t[i], &r); sum += (long)r; }
    }
    printf("sum %ld\n", sum);
    fflush(stdout);
    pid_t pid;
    char *sh[] = {"sh", "-c", "exit 6", 0};
    printf("spawn %d\n", posix_spawn(&pid, "/bin/sh", 0, 0, sh, environ));
    int status;
    waitpid(pid, &status, 0);
    printf("status %d\n", WEXITSTATUS(status));
    return 0;
}
