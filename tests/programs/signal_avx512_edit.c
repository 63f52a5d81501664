// A handler finds zmm, opmask and ymm registers of the interrupted code in its
// frame, changes them there, and the code goes on with the changed ones.
// build: cc -O1 -mavx512f -mavx512bw
// run: needs avx512f avx512bw
// run: oracle own-functions
#define _GNU_SOURCE
#include <cpuid.h>
#include <immintrin.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
static unsigned offset_of_component(int n) { unsigned a, b, c, d; __cpuid_count(13, n, a, b, c, d); return b; }
static unsigned found[4];
static void handler(int sig, siginfo_t *info, void *context) {
    unsigned char *area = (unsigned char *)((ucontext_t *)context)->uc_mcontext.fpregs;
    unsigned ymm = offset_of_component(2), mask = offset_of_component(5), high = offset_of_component(6), upper = offset_of_component(7);
    memcpy(&found[0], area + 160 + 16 * 5, 4);            // xmm5
    memcpy(&found[1], area + ymm + 16 * 5, 4);            // upper half of ymm5
    memcpy(&found[2], area + high + 32 * 5, 4);           // upper half of zmm5
    memcpy(&found[3], area + upper + 64 * 4, 4);          // zmm20
    unsigned long k;
    memcpy(&k, area + mask + 8 * 3, 8);
    printf("found %x %x %x %x k3 %lx\n", found[0], found[1], found[2], found[3], k);
    memset(area + 160 + 16 * 5, 0x11, 16);
    memset(area + ymm + 16 * 5, 0x22, 16);
    memset(area + high + 32 * 5, 0x33, 32);
    memset(area + upper + 64 * 4, 0x44, 64);
    k = 0x123456789abcdef0;
    memcpy(area + mask + 8 * 3, &k, 8);
    asm volatile("vpxord %%zmm5, %%zmm5, %%zmm5; vpxord %%zmm20, %%zmm20, %%zmm20; kxorq %%k3, %%k3, %%k3; vzeroall" ::: "xmm5");
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, 0);
    unsigned in[16], a[16], b[16];
    unsigned long k = 0xfeedfacecafebeef;
    for (int i = 0; i < 16; i++) in[i] = 0x1000 + i;
    asm volatile("vmovdqu32 %2, %%zmm5; vmovdqu32 %2, %%zmm20; vpaddd %%zmm20, %%zmm20, %%zmm20; kmovq %3, %%k3; ud2; vmovdqu32 %%zmm5, %0; vmovdqu32 %%zmm20, %1; kmovq %%k3, %3"
                 : "=m"(a), "=m"(b) : "m"(in), "m"(k) : "xmm5", "xmm20", "k3", "memory");
    printf("%x %x %x %x | %x %x | %lx\n", a[0], a[4], a[8], a[15], b[0], b[15], k);
    return 0;
}
