// The signal frame: below the red zone, aligned, with the xstate area's magic
// words, the interrupted registers and the mask; sigreturn restores zmm or
// ymm registers that the handler destroyed.
// build: cc -O1 -mavx
// run: needs avx
// run: oracle own-functions
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
static int checks[8];
static void handler(int sig, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    char *fp = (char *)u->uc_mcontext.fpregs;
    unsigned magic1, extended, size;
    unsigned long features;
    memcpy(&magic1, fp + 464, 4);
    memcpy(&extended, fp + 468, 4);
    memcpy(&features, fp + 472, 8);
    memcpy(&size, fp + 480, 4);
    unsigned magic2;
    memcpy(&magic2, fp + size, 4);
    checks[0] = magic1 == 0x46505853;
    checks[1] = magic2 == 0x46505845;
    checks[2] = (unsigned long)fp % 64 == 0;
    checks[3] = u->uc_mcontext.gregs[REG_RSP] - 128 >= (long)(fp + extended);
    checks[4] = (features & 7) == 7;
    checks[5] = (u->uc_flags & 7) == 7 || u->uc_flags;
    checks[6] = u->uc_mcontext.gregs[REG_R12] == 0x1212;
    unsigned short cs = u->uc_mcontext.gregs[REG_CSGSFS];
    checks[7] = cs == 0x33;
    u->uc_mcontext.gregs[REG_RIP] += 2;
    asm volatile("vzeroall; pxor %%xmm0, %%xmm0" : : : "xmm0", "memory");
}
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, 0);
    unsigned long in[4] = {1, 2, 3, 4}, out[4], zone;
    asm volatile("vmovdqu %2, %%ymm9; mov $0x1212, %%r12d; movq $0x5555, -128(%%rsp); ud2; vmovdqu %%ymm9, %0; mov -128(%%rsp), %1"
                 : "=m"(out), "=r"(zone) : "m"(in) : "r12", "xmm9", "memory");
    for (int i = 0; i < 8; i++) printf("%d ", checks[i]);
    printf("\n%lu %lu %lu %lu %lx\n", out[0], out[1], out[2], out[3], zone);
    return 0;
}
