// SEGV, BUS, FPE, ILL, TRAP: si_code, si_addr, rip, error code, trap number
// and every general register in the handler are exact; skipping goes on.
// build: cc -O1
// run: oracle own-functions
// run: oracle-args stepped
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
static char *expect_addr;
unsigned long site, next;
static void handler(int sig, siginfo_t *info, void *context) {
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    int bad = 0;
    static const int regs[] = {REG_RBX, REG_RDX, REG_RSI, REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    for (int i = 0; i < 11; i++) bad += g[regs[i]] != 0x1111 * (i + 1);
    unsigned long rip = g[REG_RIP];
    printf("signal %d code %d addr %s trap %lld err %llx rip %s flags %llx bad %d\n", sig, info->si_code,
        info->si_addr == (void *)site ? "site" : info->si_addr == expect_addr ? "expected" : info->si_addr ? "other" : "null",
        g[REG_TRAPNO], sig == SIGSEGV || sig == SIGBUS ? g[REG_ERR] : 0, rip == site ? "site" : rip == next ? "next" : "other", g[REG_EFL] & 0xcd5, bad);
    g[REG_RIP] = next;
}
#define FAULT(insn, a, c, d) do { register unsigned long rax asm("rax") = (unsigned long)(a), rcx asm("rcx") = c, rdi asm("rdi") = d; \
    asm volatile("push %%rbp; mov %%rsp, %%rbp; push %%rbx; lea 1f(%%rip), %%rbx; mov %%rbx, site(%%rip); lea 2f(%%rip), %%rbx; mov %%rbx, next(%%rip);" \
        "mov $0x1111, %%ebx; mov $0x2222, %%edx; mov $0x3333, %%esi; mov $0x4444, %%r8d; mov $0x5555, %%r9d; mov $0x6666, %%r10d; mov $0x7777, %%r11d; mov $0x8888, %%r12d;" \
        "mov $0x9999, %%r13d; mov $0xaaaa, %%r14d; mov $0xbbbb, %%r15d; cmp %%eax, %%eax; stc\n1: " insn "\n2: pop %%rbx; pop %%rbp" \
        : "+r"(rax), "+r"(rcx), "+r"(rdi) : : "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc"); } while (0)
int main(int argc, char **argv) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    static const int all[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    for (int i = 0; i < 5; i++) sigaction(all[i], &action, 0);
    char *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // An atomic update is made of a page that is there.
    char *seen = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*(volatile char *)seen) return 1;
    int fd = memfd_create("short", 0);
    char *file = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
    for (int round = 0; round < 2; round++) {
        expect_addr = (char *)0x100; FAULT("mov (%%rax), %%rdi", 0x100, 0, 0);
        expect_addr = page + 16; FAULT("mov %%rdi, 16(%%rax)", page, 0, 0);
        expect_addr = seen + 8; FAULT("lock incq (%%rax)", seen + 8, 0, 0);
        expect_addr = page + 5; FAULT("mov %%rcx, %%rdi; .byte 0x90\n 3: ; movb $1, 5(%%rax)", page, 0, 0);
        expect_addr = 0; FAULT("mov (%%rax), %%rdi", 0x8000000000000000, 0, 0);
        expect_addr = page + 2; FAULT("rep stosb", 0, 3, (unsigned long)page + 2);
        expect_addr = file; FAULT("mov (%%rax), %%rdi", file, 0, 0);
        FAULT("xor %%edx, %%edx; mov $0x2222, %%edx; div %%rcx", 5, 0, 0);
        FAULT("ud2", 0, 0, 0);
        FAULT("hlt", 0, 0, 0);
        if (argc == 1) { // a stepper needs this signal
            FAULT("int3", 0, 0, 0);
            FAULT("int $3", 0, 0, 0);
        }
        FAULT(".byte 0x06", 0, 0, 0);
        FAULT("in %%dx, %%al", 0, 0, 0);
        FAULT("int $0x50", 0, 0, 0);
        FAULT("movaps 1(%%rsp), %%xmm0", 0, 0, 0);
        FAULT("mov %%rax, %%cr3", 0, 0, 0);
        FAULT(".byte 0xf0, 0x48, 0x89, 0x00", page, 0, 0);
        expect_addr = (char *)0x40; FAULT("push 0x40", 0, 0, 0);
        expect_addr = (char *)0x48; FAULT("call *0x48", 0, 0, 0);
        expect_addr = (char *)0x50; FAULT("jmp *0x50", 0, 0, 0);
    }
    return 0;
}
