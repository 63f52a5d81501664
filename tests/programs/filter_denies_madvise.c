// A sandbox that answers EPERM to madvise, as Firefox's children have it: threads
// are made and counted, and code that never ran before runs.
// build: cc -O1 -pthread
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static __attribute__((noinline)) long work(long n) { long sum = 0; for (long i = 0; i < n; i++) sum += i * i % 7; return sum; }
static void *run(void *arg) { return (void *)work((long)arg * 1000); }
int main(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) { puts("no filters here"); return 0; }
    printf("mode %d\n", prctl(PR_GET_SECCOMP));
    char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int result = madvise(page, 4096, MADV_DONTNEED);
    printf("madvise %d %d\n", result, result ? errno : 0);
    for (long round = 0; round < 3; round++) {
        pthread_t threads[4];
        long sum = 0;
        for (long i = 0; i < 4; i++) if (pthread_create(&threads[i], 0, run, (void *)(i + 1))) return 1;
        for (int i = 0; i < 4; i++) { void *part; pthread_join(threads[i], &part); sum += (long)part; }
        printf("sum %ld\n", sum);
    }
    return 0;
}
