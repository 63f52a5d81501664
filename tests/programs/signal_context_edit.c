// A handler edits rip, general registers, flags and xmm registers of the
// interrupted context; the program goes on with the edited ones.
// build: cc -O1
// run: oracle
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>
static void handler(int sig, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    u->uc_mcontext.gregs[REG_RAX] = 1234;
    u->uc_mcontext.gregs[REG_R15] += 1;
    u->uc_mcontext.gregs[REG_EFL] ^= 1;
    u->uc_mcontext.gregs[REG_RIP] += 2;
    u->uc_mcontext.fpregs->_xmm[7].element[1] = 0xabcdef;
}
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, 0);
    for (int i = 0; i < 4; i++) {
        unsigned long rax = 5, r15, carry;
        unsigned xmm[4] = {1, 2, 3, 4};
        asm volatile("movups %3, %%xmm7; mov $77, %%r15d; test %%eax, %%eax; ud2; setc %%cl; movzx %%cl, %2; mov %%r15, %1; movups %%xmm7, %3"
                     : "+a"(rax), "=r"(r15), "=r"(carry), "+m"(xmm) : : "rcx", "r15", "xmm7");
        printf("%lu %lu %lu %u %x %u %u\n", rax, r15, carry, xmm[0], xmm[1], xmm[2], xmm[3]);
    }
    return 0;
}
