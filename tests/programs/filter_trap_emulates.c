// Everything but a few calls is trapped, and the handler makes them or answers in place of
// the kernel: also for calls that the engine makes itself, and in threads.
// build: cc -O1 -pthread
// run: oracle own-functions
// run: no-counts the oracle does not see a call that a filter traps
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
static int trapped[512];
static void handler(int sig, siginfo_t *info, void *context) {
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    __atomic_add_fetch(&trapped[info->si_syscall & 511], 1, __ATOMIC_RELAXED);
    int right = info->si_code == 1 && info->si_errno == 9 && info->si_arch == 0xc000003e && info->si_call_addr == (void *)r[REG_RIP]
        && r[REG_RAX] == info->si_syscall && r[REG_RCX] == r[REG_RIP];
    r[REG_RAX] = right ? 1000 + (r[REG_RDI] & 15) : -1;
}
#define TRAP(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 9)
static long calls(void) {
    long sum = 0;
    sum = sum * 3 + syscall(SYS_munmap, 1);
    sum = sum * 3 + syscall(SYS_sigaltstack, 2, 0);
    sum = sum * 3 + syscall(SYS_rt_sigsuspend, 3, 8);
    sum = sum * 3 + syscall(SYS_execve, 4, 0, 0);
    sum = sum * 3 + syscall(SYS_fork, 5);
    sum = sum * 3 + syscall(SYS_vfork, 6);
    sum = sum * 3 + syscall(SYS_prctl, 7, 0);
    sum = sum * 3 + syscall(SYS_seccomp, 8, 0);
    sum = sum * 3 + syscall(SYS_rt_sigpending, 9, 8);
    sum = sum * 3 + syscall(SYS_mlockall, 10);
    sum = sum * 3 + syscall(SYS_personality, 11);
    sum = sum * 3 + syscall(SYS_readlink, 12, 0, 0);
    sum = sum * 3 + syscall(SYS_arch_prctl, 13, 0);
    sum = sum * 3 + syscall(SYS_getppid, 14);
    return sum;
}
static void *thread(void *arg) { return (void *)calls(); }
int main(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        TRAP(SYS_munmap), TRAP(SYS_sigaltstack), TRAP(SYS_rt_sigsuspend), TRAP(SYS_execve), TRAP(SYS_fork), TRAP(SYS_vfork), TRAP(SYS_prctl),
        TRAP(SYS_seccomp), TRAP(SYS_rt_sigpending), TRAP(SYS_mlockall), TRAP(SYS_personality), TRAP(SYS_readlink), TRAP(SYS_arch_prctl),
        TRAP(SYS_getppid), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    pthread_t other;
    void *sum;
    sigaction(SIGSYS, &action, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) { puts("no filters here"); return 0; }
    for (int i = 0; i < 3; i++) printf("%ld\n", calls());
    if (pthread_create(&other, 0, thread, 0)) return 1;
    pthread_join(other, &sum);
    printf("%ld\n", (long)sum);
    for (int i = 0; i < 512; i++) if (trapped[i] && i != SYS_munmap && i != SYS_prctl) printf("call %d: %d\n", i, trapped[i]);
    return 0;
}
