// The segment registers themselves: selectors read and written, a null
// selector in gs and fs clears or keeps the base as this CPU does.
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
    unsigned short cs, ds, es, fs, gs, ss;
    asm volatile("mov %%cs, %0; mov %%ds, %1; mov %%es, %2; mov %%fs, %3; mov %%gs, %4; mov %%ss, %5" : "=r"(cs), "=r"(ds), "=r"(es), "=r"(fs), "=r"(gs), "=r"(ss));
    printf("%x %x %x %x %x %x\n", cs, ds, es, fs, gs, ss);
    asm volatile("mov %0, %%ds; mov %0, %%es" :: "r"(0x2b));
    asm volatile("mov %%ds, %0; mov %%es, %1" : "=r"(ds), "=r"(es));
    printf("%x %x\n", ds, es);
    asm volatile("mov %0, %%ds; mov %0, %%es" :: "r"(0));
    static long room[4] = {11, 22, 33, 44};
    unsigned long base;
    syscall(SYS_arch_prctl, ARCH_SET_GS, room);
    long v;
    asm volatile("mov %%gs:8, %0" : "=r"(v));
    asm volatile("mov %%gs, %0" : "=r"(gs));
    printf("base set: %ld selector %x\n", v, gs);
    asm volatile("push %%gs; pop %0" : "=r"(base));
    printf("pushed %lx\n", base & 0xffff);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    asm volatile("mov %0, %%es" :: "a"(0xfff8));
    printf("bad selector faults %d\n", faults);
    return 0;
}
