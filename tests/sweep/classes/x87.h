// The x87 stack, deep and live across a system call; control and status words.
#include "../common.h"
static u64 work(u64 seed) {
    u64 digest = seed;
    for (int i = 1; i < 16; i++) {
        double a = (double)(digest >> 40) + i, result, rest;
        long whole;
        unsigned short control, chop, status;
        asm volatile("fninit\n fnstcw %0" : "=m"(control));
        chop = control | 0x0c00;
        asm volatile(
            "fldl %4\n fld %%st(0)\n fsqrt\n fldpi\n fmulp\n fld1\n fldl2e\n fxch %%st(2)\n" KERNEL
            "faddp\n fdivp\n fxam\n fnstsw %%ax\n mov %%ax, %3\n fldcw %5\n fistpll %1\n fldcw %6\n"
            "fadd %%st(0), %%st\n fstl %0\n fldl %0\n fprem\n fcomip %%st(1), %%st\n fcmovb %%st(0), %%st\n fstpl %2\n"
            : "=m"(result), "=m"(whole), "=m"(rest), "=m"(status) : "m"(a), "m"(chop), "m"(control)
            : "cc", "memory", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)", KERNEL_CLOBBERS);
        digest = mix(mix(mix(digest, (u64)whole), status & 0x4700), mix_bytes(7, &rest, 8));
        digest = mix_bytes(digest, &result, 8);
    }
    return digest;
}
