// A filter that traps calls which a translator makes itself: mprotect, mmap of
// files, sigaltstack and stat; the handler answers each.
// build: cc -O1
// run: oracle own-functions
// run: no-order its filter traps the call that a new chunk of a trace needs, and chaos has small chunks
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
static volatile int number;
static void handler(int sig, siginfo_t *info, void *context) { number = info->si_syscall; ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = -EADDRINUSE; }
#define TRAP(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)
int main(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        TRAP(SYS_mremap), TRAP(SYS_sigaltstack), TRAP(SYS_stat), TRAP(SYS_munmap), TRAP(SYS_readlink), TRAP(SYS_mprotect),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, 0);
    char *page = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = 0xc3;
    ((void (*)(void))page)();
    setvbuf(stdout, 0, _IONBF, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) { puts("no filters here"); return 0; }
    struct { long nr, a, b, c, d; } calls[] = {{SYS_readlink, (long)"/proc/self/exe", (long)page, 100}, {SYS_stat, (long)"/proc/self/exe", (long)page}, {SYS_sigaltstack}, {SYS_mprotect, (long)page, 4096, PROT_READ | PROT_EXEC}, {SYS_mremap, (long)page, 4096, 8192, 1}, {SYS_munmap, (long)page, 4096}};
    for (int i = 0; i < 6; i++) {
        number = 0;
        long r = syscall(calls[i].nr, calls[i].a, calls[i].b, calls[i].c, calls[i].d);
        printf("%d: %ld %d trapped %d\n", i, r, errno == EADDRINUSE, number == calls[i].nr);
    }
    return 0;
}
