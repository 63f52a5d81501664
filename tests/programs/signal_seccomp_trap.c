// A filter that traps: SIGSYS tells the call, its number and the address
// behind it; the handler answers in place of the kernel.
// build: cc -O1
// run: oracle own-functions
// run: no-counts the oracle does not see a call that a filter traps
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
extern char behind[];
static void handler(int sig, siginfo_t *info, void *context) {
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    printf("sig %d code %d errno %d call %d arch %d here %d rip %d rax %lld rdi %lld\n", sig, info->si_code, info->si_errno, info->si_syscall,
           info->si_arch == 0xc000003e, info->si_call_addr == behind, (char *)r[REG_RIP] == behind, r[REG_RAX], r[REG_RDI] < 10 ? r[REG_RDI] : -1);
    r[REG_RAX] = 4711;
}
static __attribute__((noinline, noclone, noipa)) long call(long nr, long arg) {
    long r;
    asm volatile("syscall\n.globl behind\nbehind:" : "=a"(r) : "a"(nr), "D"(arg) : "rcx", "r11", "memory");
    return r;
}
int main(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 77),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readlink, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 78),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) { puts("no filters here"); return 0; }
    for (int i = 0; i < 3; i++) printf("result %ld\n", call(SYS_getppid, i));
    printf("result %ld\n", call(SYS_readlink, (long)"no-such-file"));
    fflush(stdout);
    int status;
    if (!fork()) { signal(SIGSYS, SIG_DFL); call(SYS_getppid, 0); _exit(1); }
    wait(&status);
    printf("signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return 0;
}
