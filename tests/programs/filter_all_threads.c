// SECCOMP_FILTER_FLAG_TSYNC: the filter of one thread is on all; not where another thread
// has one that this one has not. Errors of filters that are none.
// build: cc -O1 -pthread -Wl,-z,now
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static pthread_barrier_t barrier;
static long install(long nr, int error, int flags) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}
static void show(const char *what, long result) { printf("%s %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "-"); }
static void *other(void *arg) {
    char *out = arg;
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    long a = syscall(SYS_getppid), e = errno;
    long b = syscall(SYS_rt_sigpending, 0, 0);
    sprintf(out, "other: %ld %ld, %ld %d", a, e, b, errno);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    install(SYS_getuid, 33, 0);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return 0;
}
int main(void) {
    pthread_t thread;
    char text[100];
    struct sock_filter bad[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog program = {2, bad}, empty = {0, bad}, wild = {2, (void *)8};
    struct sock_filter jump[] = {BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog beyond = {2, jump};
    show("no rights", geteuid() ? install(SYS_getppid, 11, 0) : (errno = EACCES, -1));
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    show("bad", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
    show("bad by prctl", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    show("empty", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &empty));
    show("wild", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &wild));
    show("beyond", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &beyond));
    show("nowhere", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 8));
    show("flags", install(SYS_getppid, 11, 1 << 20));
    show("operation", syscall(SYS_seccomp, 99, 0, 0));
    show("mode", prctl(PR_GET_SECCOMP));
    pthread_barrier_init(&barrier, 0, 2);
    if (pthread_create(&thread, 0, other, text)) return 1;
    pthread_barrier_wait(&barrier);
    show("all", install(SYS_getppid, 11, SECCOMP_FILTER_FLAG_TSYNC));
    show("all", install(SYS_rt_sigpending, 22, SECCOMP_FILTER_FLAG_TSYNC));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    puts(text);
    show("here", syscall(SYS_getppid));
    show("here", syscall(SYS_rt_sigpending, 0, 0));
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    show("refused", install(SYS_getuid, 44, SECCOMP_FILTER_FLAG_TSYNC) > 0);
    show("not installed", syscall(SYS_getuid) < 1 << 30);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, 0);
    return 0;
}
