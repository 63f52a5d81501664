// Flags and extended state stored and loaded whole; stack, enter and leave; segment bases.
// needs: fsgsbase xsave
#include "../common.h"
static u64 work(u64 seed) {
    _Alignas(64) unsigned char area[4096];
    u64 digest = seed;
    for (int i = 0; i < 8; i++) {
        u64 flags, base, lane = digest;
        // Without AC: the compiler's own code has unaligned accesses.
        asm volatile("push %2\n popf\n pushf\n pop %0\n cld"
                     : "=&r"(flags), "+r"(lane) : "r"((digest & 0xcd5) | 0x202) : "cc", "memory");
        asm volatile("rdfsbase %0\n wrfsbase %0\n sub %%fs:0, %0" : "=&r"(base) : : "cc", "memory");
        digest = mix(mix(digest, flags & 0xcd5), base);
        memset(area, 0, sizeof area);
        asm volatile("movq %1, %%xmm7\n fxsave64 %0\n pxor %%xmm7, %%xmm7\n" KERNEL "fxrstor64 %0\n movq %%xmm7, %1"
                     : "+m"(area), "+r"(lane) : : "xmm7", "memory", KERNEL_CLOBBERS);
        digest = mix(mix_bytes(digest, area + 160 + 7 * 16, 8), lane);
        memset(area, 0, sizeof area);
        asm volatile("movq %1, %%xmm2\n xor %%edx, %%edx\n mov $7, %%eax\n xsave64 %0\n pxor %%xmm2, %%xmm2\n xrstor64 %0\n movq %%xmm2, %1"
                     : "+m"(area), "+r"(lane) : : "rax", "rdx", "xmm2", "memory");
        digest = mix(mix_bytes(digest, area + 160 + 2 * 16, 8), lane);
        asm volatile("enter $64, $0\n mov %0, -8(%%rbp)\n xorl $5, -8(%%rbp)\n mov -8(%%rbp), %0\n leave"
                     : "+r"(lane) : : "cc", "memory");
        digest = mix(digest, lane);
    }
    return digest;
}
