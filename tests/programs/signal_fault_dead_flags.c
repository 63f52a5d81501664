// A fault just before an instruction that overwrites every flag: the handler
// sees the flags as they were, and those that it sets are there where it goes
// on. Whoever counts instructions may not take them for dead.
// build: cc -O1 -mno-red-zone
// run: no-oracle the tracer loses its step where a handler of a trap goes on elsewhere
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>
#define FLAGS 0x8d5ul
static unsigned long seen;
static void handler(int sig, siginfo_t *info, void *context) {
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    seen = regs[REG_EFL] & FLAGS;
    regs[REG_EFL] ^= FLAGS;
    regs[REG_RIP] = regs[REG_R13];
}
// INSN faults at the start of a block; `cmp` would write all flags, and is not reached.
#define FAULT(name, INSN)                                                                        \
    static void name(void) {                                                                     \
        for (unsigned long flag = 1; flag <= FLAGS; flag <<= 1) {                                \
            unsigned long set = (flag & FLAGS) | 0x202, after;                                   \
            asm volatile("lea 1f(%%rip), %%r13; lea 0f(%%rip), %%rcx; xor %%eax, %%eax\n  "      \
                         "push %1; popf; jmp *%%rcx\n"                                           \
                         "0: " INSN "\n  cmp %%ecx, %%eax; jmp 1f\n"                             \
                         "1: pushf; pop %0"                                                      \
                         : "=r"(after) : "r"(set), "d"(0) : "rax", "rcx", "r13", "memory", "cc");\
            printf(#name " %lx: %lx then %lx\n", flag, seen, after & FLAGS);                     \
        }                                                                                        \
    }
int zero;
FAULT(load, "mov 16(%%rax), %%ecx")
FAULT(store, "mov %%ecx, 16(%%rax)")
FAULT(vector, "movups 16(%%rax), %%xmm1")
FAULT(divide, "divl zero(%%rip)")
FAULT(privileged, "hlt")
FAULT(illegal, "ud2")
FAULT(trap, "int3")
FAULT(jump, "jmp *16(%%rax)")
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    int signals[] = {SIGSEGV, SIGFPE, SIGILL, SIGTRAP};
    for (int i = 0; i < 4; i++) sigaction(signals[i], &action, 0);
    load(); store(); vector(); divide(); privileged(); illegal(); trap(); jump();
    return zero;
}
