// A traced child that does not exec: its tracer sees the program's own addresses, registers and
// signals, sets a breakpoint and steps, exactly as many instructions as natively.
// build: cc -O1 -fno-pie -no-pie
// run: no-oracle it is a debugger itself, and a process has only one
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <elf.h>
static volatile long secret = 41;
static volatile int handled;
static char stack[1 << 16];
extern char __executable_start[], etext[];
__attribute__((noinline)) static long work(long n) { long sum = 0; for (long i = 0; i < n; i++) sum += i ^ secret; return sum; }
static void handler(int number) { handled += number; }
static int child(int shares) {
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigaddset(&mask, SIGSEGV);
    sigprocmask(SIG_BLOCK, &mask, 0);
    if (!shares) {
        signal(SIGUSR1, handler);
        sigaltstack(&alternate, 0);
        syscall(SYS_arch_prctl, ARCH_SET_GS, 0x12345000);
    }
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    double before = 1.5;
    asm volatile("movsd %0, %%xmm9\n\tfldpi" : : "m"(before) : "xmm9");
    kill(getpid(), SIGSTOP);
    double after, pi;
    asm volatile("movsd %%xmm9, %0\n\tfstpl %1" : "=m"(after), "=m"(pi));
    raise(SIGUSR1);
    long sum = work(100);
    asm volatile("int3");
    sigset_t now;
    stack_t stands;
    sigprocmask(SIG_BLOCK, 0, &now);
    sigaltstack(0, &stands);
    int ok = after == before && pi > 3.14 && pi < 3.15 && sigismember(&now, SIGSEGV) && sigismember(&now, SIGUSR2) && !sigismember(&now, SIGINT);
    if (!shares) ok &= stands.ss_sp == stack && handled == SIGUSR1;
    _exit(ok ? (sum + secret) % 100 : 255);
}
static int inside(unsigned long at) { return at >= (unsigned long)__executable_start && at < (unsigned long)etext; }
static void signals(pid_t pid) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "r");
    while (fgets(line, sizeof line, file)) if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigCgt", 6)) printf("%s", line);
    fclose(file);
}
static int next(pid_t pid, int request, int signal) {
    int status;
    ptrace(request, pid, 0, signal);
    waitpid(pid, &status, __WALL);
    return status;
}
static void debug(pid_t pid, int shares) {
    struct user_regs_struct regs;
    int status;
    waitpid(pid, &status, __WALL);
    printf("stopped by %d\n", WSTOPSIG(status));
    if (!shares) signals(pid);
    ptrace(PTRACE_GETREGS, pid, 0, &regs);
    printf("call %lld, gs base %llx, in the program or its libraries %d\n", regs.orig_rax, regs.gs_base, regs.rip < 0x7ffffffff000 && ptrace(PTRACE_PEEKTEXT, pid, regs.rip - 2, 0) % 65536 == 0x050f);
    status = next(pid, PTRACE_CONT, 0);
    printf("signal %d\n", WSTOPSIG(status));
    long word = ptrace(PTRACE_PEEKTEXT, pid, (long)work, 0);
    ptrace(PTRACE_POKETEXT, pid, (long)work, (word & ~0xffL) | 0xcc);
    status = next(pid, PTRACE_CONT, shares ? 0 : SIGUSR1);
    ptrace(PTRACE_GETREGS, pid, 0, &regs);
    printf("signal %d, breakpoint %d, argument %lld\n", WSTOPSIG(status), regs.rip == (unsigned long)work + 1, regs.rdi);
    ptrace(PTRACE_POKETEXT, pid, (long)work, word);
    regs.rip = (long)work;
    regs.rdi = 10;
    ptrace(PTRACE_SETREGS, pid, 0, &regs);
    ptrace(PTRACE_POKEDATA, pid, &secret, 7);
    int steps = 0;
    unsigned long sp = regs.rsp;
    do {
        status = next(pid, PTRACE_SINGLESTEP, 0);
        ptrace(PTRACE_GETREGS, pid, 0, &regs);
        steps++;
    } while (WIFSTOPPED(status) && regs.rsp <= sp && steps < 100000);
    printf("returned %lld after %d steps, in the program %d\n", regs.rax, steps, inside(regs.rip));
    status = next(pid, PTRACE_CONT, 0);
    ptrace(PTRACE_GETREGS, pid, 0, &regs);
    printf("signal %d, in the program %d\n", WSTOPSIG(status), inside(regs.rip));
    status = next(pid, PTRACE_CONT, 0);
    printf("exit %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    fflush(stdout);
}
int main(void) {
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) child(0);
    debug(pid, 0);
    printf("%ld %ld\n", work(1000), secret);
    return 0;
}
