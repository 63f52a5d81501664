// Jumps, calls and returns to unmapped, non-executable and non-canonical
// addresses: si_addr, rip, error code, and the stack as the program left it.
// build: cc -O1
// run: oracle own-functions
// run: no-counts a branch to an address that no address can be counts as executed, and faults
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
static sigjmp_buf back;
static char *page, *code;
static unsigned long after;
static const char *name(unsigned long p) { return p == (unsigned long)page ? "page" : p == (unsigned long)code + 4096 ? "edge" : p == 0x1000 ? "low" : p ? "other" : "null"; }
static void handler(int sig, siginfo_t *info, void *context) {
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    unsigned long top = *(unsigned long *)g[REG_RSP];
    printf("signal %d code %d addr %s rip %s err %llx trap %lld return address on stack %d\n", sig, info->si_code, name((unsigned long)info->si_addr), name(g[REG_RIP]), g[REG_ERR], g[REG_TRAPNO], after ? top == after : -1);
    siglongjmp(back, 1);
}
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    code = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = (char)0xc3;
    for (int i = 0; i < 4096; i++) code[i] = (char)0x90;
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    munmap(code + 4096, 4096);
    unsigned long targets[] = {(unsigned long)page, 0x1000, 0, (unsigned long)code + 4090, 0x800000000000};
    for (int round = 0; round < 2; round++) for (int i = 0; i < 5; i++) {
        if (!sigsetjmp(back, 1)) { asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; call *%1\n1:" : "=m"(after) : "r"(targets[i]) : "rax", "memory"); printf("returned\n"); }
        after = 0;
        if (!sigsetjmp(back, 1)) { asm volatile("jmp *%0" : : "r"(targets[i]) : "memory"); }
        if (!sigsetjmp(back, 1)) { asm volatile("push %0; ret" : : "r"(targets[i]) : "memory"); }
    }
    return 0;
}
