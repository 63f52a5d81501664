// SSE floating point in all roundings, conversions and comparisons; xmm live across a system call.
#include "../common.h"
static u64 work(u64 seed) {
    u64 digest = seed;
    for (unsigned i = 0; i < 16; i++) {
        double a = (double)(int64_t)digest / 3.0, b = (double)(i + 1) * 0.1, c;
        float f[4] = {1.5f + i, (float)(digest >> 44), -2.25f, 1e-3f};
        unsigned saved, mode;
        long near, chopped;
        u64 flags;
        asm volatile("stmxcsr %0" : "=m"(saved));
        mode = (saved & ~0x603fu) | (i & 3) << 13;
        asm volatile(
            "ldmxcsr %8\n movsd %5, %%xmm1\n movsd %6, %%xmm15\n divsd %%xmm15, %%xmm1\n sqrtsd %%xmm15, %%xmm9\n"
            "movups %4, %%xmm3\n rcpps %%xmm3, %%xmm4\n mulps %%xmm3, %%xmm3\n haddps %%xmm3, %%xmm3\n" KERNEL
            "cvtsd2si %%xmm15, %1\n cvttsd2si %%xmm9, %2\n mulsd %%xmm9, %%xmm1\n cvtps2pd %%xmm3, %%xmm4\n"
            "addpd %%xmm4, %%xmm1\n ucomisd %%xmm9, %%xmm1\n pushf\n pop %3\n cmpltps %%xmm4, %%xmm3\n"
            "movsd %%xmm1, %0\n movups %%xmm3, %4\n ldmxcsr %7\n"
            : "=m"(c), "=&r"(near), "=&r"(chopped), "=&r"(flags), "+m"(f) : "m"(a), "m"(b), "m"(saved), "m"(mode)
            : "xmm1", "xmm3", "xmm4", "xmm9", "xmm15", "cc", "memory", KERNEL_CLOBBERS);
        digest = mix(mix(mix(digest, (u64)near), (u64)chopped), flags & ARITHMETIC_FLAGS);
        digest = mix_bytes(mix_bytes(digest, &c, 8), f, 16);
    }
    return digest;
}
