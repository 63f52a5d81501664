// A string instruction that faults in its middle: rcx, rsi and rdi tell how far
// it came, and it goes on when the page is opened. Forward, backward, every
// size, and with a count of zero at a bad address.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
static char *from, *to;
static int faults;
static void handler(int sig, siginfo_t *info, void *context) {
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    faults++;
    printf(" [rcx %lld rsi %lld rdi %lld df %d at %ld]", r[REG_RCX], r[REG_RSI] - (long)from, r[REG_RDI] - (long)to, (int)(r[REG_EFL] >> 10 & 1),
           (char *)info->si_addr >= to ? (long)((char *)info->si_addr - to) : -1);
    mprotect((void *)((long)info->si_addr & -4096), 4096, PROT_READ | PROT_WRITE);
}
static void run(const char *name, int down, int size, long count) {
    char *s = from + (down ? 8192 - size : 0), *d = to + (down ? 8192 - size : 0);
    long c = count;
    memset(from, 7, 8192);
    printf("%s %s:", name, down ? "down" : "up");
    if (down) asm volatile("std");
#define DO(insn) asm volatile("push %%rax; mov $0x0505050505050505, %%rax; " insn "; cld; pop %%rax" : "+c"(c), "+S"(s), "+D"(d) :: "memory", "cc", "rax")
    switch (name[0] * 100 + size) {
        case 'm' * 100 + 1: DO("rep movsb"); break;
        case 'm' * 100 + 2: DO("rep movsw"); break;
        case 'm' * 100 + 4: DO("rep movsl"); break;
        case 'm' * 100 + 8: DO("rep movsq"); break;
        case 's' * 100 + 1: DO("rep stosb"); break;
        case 's' * 100 + 8: DO("rep stosq"); break;
        case 'c' * 100 + 4: DO("repe cmpsl"); break;
        default: DO("repne scasb"); break;
    }
    printf(" end rcx %ld rsi %ld rdi %ld\n", c, s - from, d - to);
}
int main(void) {
    from = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *room = mmap(0, 16384, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    to = room + 4096;
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    static const struct { const char *name; int size; } forms[] = {{"movsb", 1}, {"movsw", 2}, {"movsl", 4}, {"movsq", 8}, {"stosb", 1}, {"stosq", 8}, {"cmpsl", 4}, {"xscasb", 1}};
    for (unsigned i = 0; i < sizeof forms / sizeof *forms; i++) for (int down = 0; down < 2; down++) {
        mprotect(to, 8192, PROT_READ | PROT_WRITE);
        memset(to, 7, 8192);
        mprotect(down ? to : to + 4096, 4096, PROT_NONE);
        run(forms[i].name, down, forms[i].size, 6000 / forms[i].size);
    }
    mprotect(to, 8192, PROT_NONE);
    run("movsb", 0, 1, 0);
    run("stosq", 1, 8, 0);
    printf("faults %d\n", faults);
    return 0;
}
