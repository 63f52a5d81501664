// Writing selectors to gs while a base is set, then reading the base: null by
// mov and pop, the flat data segment, one that is none; es stays as it was.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
static volatile int faults;
static void handler(int sig, siginfo_t *info, void *context) { faults++; ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2; }
int main(void) {
    static long room[4] = {11, 22, 33, 44};
    unsigned long base = 1;
    syscall(SYS_arch_prctl, ARCH_SET_GS, room);
    asm volatile("mov %0, %%gs" :: "r"(0));
    syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
    printf("base %s\n", base == (unsigned long)room ? "kept" : base ? "other" : "cleared");
    syscall(SYS_arch_prctl, ARCH_SET_GS, room);
    long v;
    asm volatile("mov %%gs:16, %0" : "=r"(v));
    printf("%ld\n", v);
    asm volatile("push $0; pop %%gs" ::: "memory");
    syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
    printf("popped: base %s\n", base == (unsigned long)room ? "kept" : base ? "other" : "cleared");
    syscall(SYS_arch_prctl, ARCH_SET_GS, room);
    static unsigned short flat = 0x2b, es;
    asm volatile("mov %0, %%gs" :: "m"(flat));
    syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
    asm volatile("mov %%es, %0" : "=r"(es));
    printf("flat: base %s es %x\n", base == (unsigned long)room ? "kept" : base ? "other" : "cleared", es);
    syscall(SYS_arch_prctl, ARCH_SET_GS, room);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    asm volatile("mov %0, %%gs" :: "a"(0xfff8));
    syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
    printf("bad selector faults %d, base %d\n", faults, base == (unsigned long)room);
    return 0;
}
