// A program that asks for an exception at each address that is not aligned (EFLAGS.AC), as
// java does to see what the processor can do: it goes on to new code, calls, makes system
// calls and gets signals with that, and at last accesses such an address itself.
// build: cc -O1 -mno-red-zone
// run: oracle own-functions
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static volatile unsigned long sum, handled, faults;
static char bytes[16] __attribute__((aligned(16)));

static inline __attribute__((always_inline)) void check(int on) {
    unsigned long flags;
    __asm__ volatile("pushfq; pop %0" : "=r"(flags)::"memory");
    flags = on ? flags | 0x40000 : flags & ~0x40000ul;
    __asm__ volatile("push %0; popfq" ::"r"(flags) : "memory", "cc");
}

static void handler(int signal) { handled += signal; }

static void unaligned(int signal, siginfo_t *information, void *context) {
    faults += signal == SIGBUS && information->si_code == BUS_ADRALN;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x40000;
}

__attribute__((noinline)) static void add(unsigned long n) { sum += n; }
__attribute__((noinline)) static void twice(unsigned long n) { sum += 2 * n; }
__attribute__((noinline)) static void thrice(unsigned long n) { sum += 3 * n; }
static void (*const kinds[])(unsigned long) = {add, twice, thrice};

int main(void) {
    signal(SIGUSR1, handler);
    struct sigaction action = {.sa_sigaction = unaligned, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
    long pid = getpid(), tid = syscall(SYS_gettid);
    check(1);
    for (unsigned long i = 0; i < 3000; i++) {
        kinds[i * 7 % 3](i);
        if (i % 100 == 0) {
            long result;
            __asm__ volatile("syscall"
                             : "=a"(result)
                             : "a"((long)SYS_tgkill), "D"(pid), "S"(tid), "d"((long)SIGUSR1)
                             : "rcx", "r11", "memory");
        }
    }
    __asm__ volatile("movl $7, 1(%0)" ::"r"(bytes) : "memory");
    check(0);
    printf("%lu %lu %lu %d\n", sum, handled, faults, bytes[1]);
}
