// Alignment checks (EFLAGS.AC) of the program's own instructions where these look like what the
// engine emits: with a prefix of gs that says nothing, and with rdx = 0.
// build: cc -O1 -mno-red-zone
// run: oracle own-functions
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

static volatile unsigned long faults;
static char bytes[64] __attribute__((aligned(16)));

// It goes on without the check.
static void unaligned(int signal, siginfo_t *information, void *context) {
    faults += signal == SIGBUS && information->si_code == BUS_ADRALN;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x40000;
}

// The stack is aligned while flags are changed.
#define CHECKED(name, code) do { \
    __asm__ volatile("xor %%edx, %%edx; mov %%rsp, %%rcx; and $-16, %%rsp\n" \
                     "pushfq; orl $0x40000, (%%rsp); popfq\n" code "\n" \
                     "mov %%rcx, %%rsp; and $-16, %%rsp; pushfq; andl $~0x40000, (%%rsp); popfq; mov %%rcx, %%rsp" \
                     ::"b"(bytes) : "rax", "rcx", "rdx", "rsi", "memory", "cc"); \
    printf("%s: %lu\n", name, faults); } while (0)

int main(void) {
    struct sigaction action = {.sa_sigaction = unaligned, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
    for (int round = 0; round < 2; round++) {
        CHECKED("aligned load", "mov (%%rbx), %%rax");
        CHECKED("load", "mov 1(%%rbx), %%rax");
        CHECKED("store", "mov %%rax, 3(%%rbx)");
        CHECKED("load, rdx = 1", "mov $1, %%edx; mov 1(%%rbx), %%rax");
        CHECKED("gs push", "lea -3(%%rsp), %%rsp; .byte 0x65; push %%rax");
        CHECKED("gs fs", "lea 1(%%rbx), %%rsi; .byte 0x65, 0x3e; mov %%fs:0, %%rax");
        CHECKED("gs lea", ".byte 0x65; lea 1(%%rbx), %%rax");
    }
    return 0;
}
