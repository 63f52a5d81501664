// A child that is stopped by a fault of its own directly after it asked to be traced: its tracer
// sees the address of the program, of a breakpoint and of a page that cannot be executed.
// build: cc -O1 -fno-pie -no-pie
// run: no-oracle it is a debugger itself, and a process has only one
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
extern char trap_here[], undefined_here[];
static char *data;
__attribute__((noinline)) static void breakpoint(void) { asm volatile(".globl trap_here\ntrap_here: int3"); }
__attribute__((noinline)) static void undefined(void) { asm volatile(".globl undefined_here\nundefined_here: ud2"); }
static void nowhere(void) { ((void (*)(void))data)(); }
static void look(const char *name, void (*work)(void), unsigned long expected) {
    struct user_regs_struct regs;
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        work();
        _exit(5);
    }
    waitpid(pid, &status, 0);
    ptrace(PTRACE_GETREGS, pid, 0, &regs);
    printf("%s: signal %d at %+ld\n", name, WSTOPSIG(status), (long)(regs.rip - expected));
    if (WSTOPSIG(status) != SIGTRAP) {
        // It goes on behind the instruction, or where the call came from.
        unsigned long back = ptrace(PTRACE_PEEKDATA, pid, regs.rsp, 0);
        if (regs.rip == (unsigned long)data) regs.rsp += 8;
        regs.rip = regs.rip == (unsigned long)data ? back : regs.rip + 2;
        ptrace(PTRACE_SETREGS, pid, 0, &regs);
    }
    ptrace(PTRACE_CONT, pid, 0, 0);
    waitpid(pid, &status, 0);
    printf("%s: exit %d\n", name, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}
int main(void) {
    data = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data[0] = (char)0xc3;
    look("breakpoint", breakpoint, (unsigned long)trap_here + 1);
    look("undefined instruction", undefined, (unsigned long)undefined_here);
    look("no code", nowhere, (unsigned long)data);
    return 0;
}
