// The flags NT and ID: the kernel neither clears them for a handler nor restores them from its
// frame, so a handler runs with the program's, and what it leaves is the program's.
// build: cc -O1 -mno-red-zone
// run: oracle own-functions
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

#define NT_ID 0x204000ul
static volatile unsigned long in_handler, in_frame, leaves;

static inline unsigned long flags(void) {
    unsigned long flags;
    __asm__ volatile("pushfq; pop %0" : "=r"(flags)::"memory");
    return flags & NT_ID;
}

static inline void set(unsigned long wanted) {
    __asm__ volatile("pushfq; andq $~0x204000, (%%rsp); orq %0, (%%rsp); popfq" ::"r"(wanted) : "memory", "cc");
}

static void handler(int signal, siginfo_t *information, void *context) {
    (void)signal, (void)information;
    in_handler = flags();
    in_frame = ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] & NT_ID;
    set(leaves);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, NULL);
    unsigned long values[] = {0, 0x4000, 0x200000, 0x204000};
    for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) {
        leaves = values[j];
        set(values[i]);
        __asm__ volatile("ud2" ::: "memory");
        unsigned long after = flags();
        set(0);
        printf("%lx: handler %lx, frame %lx, leaves %lx, after %lx\n", values[i], in_handler, in_frame, values[j], after);
    }
}
