// A timer interrupts a hand-written loop at arbitrary instructions: every
// register that the loop keeps constant is exact in the handler's context,
// rip lies on an instruction of the loop or its callee, and the handler, which
// destroys vector registers and opmasks, disturbs nothing.
// build: cc -O1 -mavx512f -mavx512bw
// run: needs avx512f avx512bw
// run: nondeterministic-counts
// run: timeout 40
// run: no-oracle a timer every 100 microseconds leaves a stepped program no time to get on
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <ucontext.h>
extern char loop_start[], loop_end[], leaf_start[], leaf_end[];
volatile int ticks, wrong, strange;
static void handler(int sig, siginfo_t *info, void *context) {
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    char *rip = (char *)g[REG_RIP];
    if ((rip >= loop_start && rip < loop_end) || (rip >= leaf_start && rip < leaf_end)) {
        static const int regs[] = {REG_RBX, REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
        for (int i = 0; i < 9; i++) wrong += g[regs[i]] != 0x1010101 * (i + 1);
        wrong += (g[REG_RSP] & 7) != 0;
        ticks++;
    } else strange++;
    asm volatile("vpternlogd $255, %%zmm5, %%zmm5, %%zmm5; vpxord %%zmm20, %%zmm20, %%zmm20; kxnorq %%k2, %%k2, %%k2; std; cld" : : : "memory");
}
extern unsigned long spin(unsigned long rounds, const void *vectors);
asm(".text\nspin: push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; vmovdqu64 (%rsi), %zmm5; vmovdqu64 64(%rsi), %zmm20; kmovq 128(%rsi), %k2\n"
    "mov $0x1010101, %ebx; mov $0x2020202, %r8d; mov $0x3030303, %r9d; mov $0x4040404, %r10d; mov $0x5050505, %r11d; mov $0x6060606, %r12d; mov $0x7070707, %r13d; mov $0x8080808, %r14d; mov $0x9090909, %r15d\n"
    "xor %eax, %eax\nloop_start: mov %rdi, -16(%rsp); push %rdi; lea leaf_start(%rip), %rdx; call *%rdx; pop %rdi; add -16(%rsp), %rax; call leaf_start\n"
    "cmp $7, %rdi; je 1f; lea 1f(%rip), %rcx; jmp *%rcx\n1: adc $0, %rax; sub $1, %rdi; jnz loop_start\nloop_end:\n"
    "vpcmpeqd (%rsi), %zmm5, %k3; kmovw %k3, %ecx; cmp $0xffff, %ecx; jne 2f; vpcmpeqd 64(%rsi), %zmm20, %k3; kmovw %k3, %ecx; cmp $0xffff, %ecx; jne 2f; kmovq %k2, %rcx; cmp 128(%rsi), %rcx; je 3f\n"
    "2: mov $-1, %rax\n3: vzeroupper; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n"
    "leaf_start: lea (%rax,%rdi), %rbp; xor %rbp, %rax; rol $5, %rax; ret\nleaf_end:\n");
int main(void) {
    struct { unsigned v[32]; unsigned long k; } vectors;
    for (int i = 0; i < 32; i++) vectors.v[i] = i * 0x9e3779b9;
    vectors.k = 0x123456789abcdef;
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGALRM, &action, 0);
    unsigned long reference = spin(200000, &vectors), bad = 0;
    struct itimerval it = {{0, 100}, {0, 100}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &it, 0);
    for (int i = 0; i < 1000 && ticks < 500; i++) bad += spin(200000, &vectors) != reference;
    setitimer(ITIMER_REAL, &off, 0);
    printf("%lx bad %lu wrong %d ticked %d\n", reference, bad, wrong, ticks > 0);
    return 0;
}
