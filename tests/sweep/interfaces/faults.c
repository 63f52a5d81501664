// Faults of all kinds in between: pages made accessible by the handler, skipped
// instructions, traps; the address and the code of each is part of the digest.
#include <ucontext.h>
static char *page;
static u64 digest;
static void on_fault(int sig, siginfo_t *info, void *context) {
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    u64 address = sig == SIGSEGV ? (u64)((char *)info->si_addr - page) : 0;
    digest = mix(mix(mix(digest, (u64)sig), (u64)info->si_code), address);
    digest = mix(digest, work((u64)sig));
    if (sig == SIGSEGV) mprotect(page, 4096, PROT_READ | PROT_WRITE);
    else if (sig != SIGTRAP) regs[REG_RIP] += 2; // ud2, and div %ecx
}
int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    int all[] = {SIGSEGV, SIGILL, SIGFPE, SIGTRAP};
    for (int i = 0; i < 4; i++) MUST(sigaction(all[i], &action, 0));
    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 10; i++) {
        MUST(mprotect(page, 4096, PROT_NONE));
        page[i * 8]++;
        digest = mix(digest, work((u64)page[i * 8]));
        MUST(mprotect(page, 4096, PROT_READ));
        u64 kept = work(1);
        asm volatile("addq %1, %0" : "+m"(*(u64 *)(page + 64)) : "r"(kept) : "cc");
        asm volatile("ud2\n int3" : : : "memory");
        asm volatile("xor %%ecx, %%ecx\n div %%ecx" : : : "rax", "rcx", "rdx", "cc");
        digest = mix_bytes(mix(digest, kept), page, 80);
    }
    show("digest", digest);
}
