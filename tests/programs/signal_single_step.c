// The trap flag set by popf traps after every following instruction until it
// is cleared in the handler's context.
// build: cc -O1
// run: no-oracle it uses the trap flag, which the oracle needs
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>
static int traps;
static unsigned long first, at[64];
static void handler(int sig, siginfo_t *info, void *context) {
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (traps < 64) at[traps] = g[REG_RIP];
    if (++traps == 8) g[REG_EFL] &= ~0x100;
}
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, 0);
    unsigned long x;
    asm volatile("lea 1f(%%rip), %0; mov %0, %1; pushf; orl $0x100, (%%rsp); popf\n1: nop; nop; mov $3, %%ecx\n2: loop 2b; nop; xor %%eax, %%eax; inc %%eax; nop; nop"
                 : "=r"(x), "=m"(first) : : "rcx", "rax", "cc", "memory");
    printf("traps %d:", traps);
    for (int i = 0; i < traps && i < 64; i++) printf(" %ld", (long)(at[i] - first));
    printf("\n");
    return 0;
}
