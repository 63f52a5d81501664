// The x87 stack, its control and status words and mxcsr of the interrupted
// code are in the frame; a handler starts with clean ones and may change them;
// a frame without vector state leaves initial state behind.
// build: cc -O1 -mavx
// run: oracle own-functions
// run: needs avx
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
static volatile int how;
static void handler(int sig, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    struct _libc_fpstate *f = u->uc_mcontext.fpregs;
    unsigned short cw;
    unsigned csr;
    asm volatile("fnstcw %0; stmxcsr %1" : "=m"(cw), "=m"(csr));
    printf("inside %x %x frame %x top %d tag %x mxcsr %x st0 %x\n", cw, csr, f->cwd, f->swd >> 11 & 7, f->ftw, f->mxcsr, f->_st[0].significand[3]);
    asm volatile("fninit; fldpi; fldpi; fldpi");
    csr = 0x7fa0;
    asm volatile("ldmxcsr %0" :: "m"(csr));
    if (how == 1) { f->cwd = 0x37f; f->mxcsr = 0x1f80; f->_st[0].significand[3] = 0xc000; }
    if (how == 2) { unsigned long *header = (unsigned long *)((char *)f + 512); header[0] = 0; }
    if (how == 3) u->uc_mcontext.fpregs = 0;
    u->uc_mcontext.gregs[REG_RIP] += 2;
}
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, 0);
    for (how = 0; how < 4; how++) {
        double one = 0;
        unsigned short cw = 0x77f, after;
        unsigned csr = 0x3f80, csr_after, low[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        asm volatile("fninit; fldcw %4; ldmxcsr %5; fld1; vmovdqu %3, %%ymm7; ud2; fnstcw %1; stmxcsr %2; fstpl %0; vmovdqu %%ymm7, %3; fninit"
                     : "=m"(one), "=m"(after), "=m"(csr_after), "+m"(low) : "m"(cw), "m"(csr) : "memory", "xmm7");
        unsigned normal = 0x1f80;
        asm volatile("ldmxcsr %0" :: "m"(normal));
        printf("%d: %g cw %x mxcsr %x ymm %u %u\n", how, one, after, csr_after, low[0], low[7]);
    }
    return 0;
}
