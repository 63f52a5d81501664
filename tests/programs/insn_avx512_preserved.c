// All 32 zmm registers, opmasks and upper halves keep their values across
// calls, indirect jumps, system calls, first-time code and faults.
// build: cc -O1 -mavx512f -mavx512bw
// run: needs avx512f avx512bw
// run: oracle own-functions
#define _GNU_SOURCE
#include <stdio.h>
#include <signal.h>
#include <ucontext.h>
static unsigned char in[32 * 64], out[32 * 64];
static unsigned long kin[8], kout[8];
static void skip(int sig, siginfo_t *info, void *context) {
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
    asm volatile("vpxord %%zmm17, %%zmm17, %%zmm17; vpxor %%ymm3, %%ymm3, %%ymm3; kxorq %%k3, %%k3, %%k3" : : : "memory");
}
#define ALL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) \
    X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define LOAD(n) "vmovdqu64 " #n "*64(%0), %%zmm" #n "\n\t"
#define STORE(n) "vmovdqu64 %%zmm" #n ", " #n "*64(%1)\n\t"
#define EIGHT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define KLOAD(n) "kmovq " #n "*8(%2), %%k" #n "\n\t"
#define KSTORE(n) "kmovq %%k" #n ", " #n "*8(%3)\n\t"
int main(void) {
    struct sigaction action = {.sa_sigaction = skip, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, 0);
    for (int i = 0; i < 2048; i++) in[i] = i * 37 + (i >> 8);
    for (int i = 0; i < 8; i++) kin[i] = 0x0123456789abcdef * (i + 3);
    asm volatile(ALL(LOAD) EIGHT(KLOAD)
        "mov $39, %%eax\n\tsyscall\n\t"
        "call 2f\n\tjmp 3f\n"
        "2: lea 4f(%%rip), %%rax\n\tjmp *%%rax\n\t.fill 300, 1, 0x90\n4: ret\n"
        "3: mov $24, %%eax\n\tsyscall\n\tud2\n\t"
        "lea 5f(%%rip), %%rax\n\tcall *%%rax\n\tjmp 6f\n5: ret\n6:\n\t"
        ALL(STORE) EIGHT(KSTORE)
        : : "r"(in), "r"(out), "r"(kin), "r"(kout) : "rax", "rcx", "r11", "memory", "cc",
          "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    int bad = 0;
    for (int i = 0; i < 2048; i++) if (in[i] != out[i]) { if (!bad++) printf("zmm%d byte %d\n", i / 64, i % 64); }
    for (int i = 0; i < 8; i++) if (kin[i] != kout[i]) { bad++; printf("k%d\n", i); }
    printf("bad %d\n", bad);
    return bad != 0;
}
