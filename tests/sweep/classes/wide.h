// AVX2: ymm registers live across a system call, gathers, masked moves.
// needs: avx2 fma
#include "../common.h"
static u64 work(u64 seed) {
    u64 digest = seed, table[16];
    for (int i = 0; i < 16; i++) table[i] = seed * (u64)(i + 3);
    for (int i = 0; i < 16; i++) {
        u64 block[4] = {digest, seed + (u64)i, ~digest, seed}, out[4] = {1, 2, 3, 4};
        u64 index[4] = {digest & 15, (digest >> 8) & 15, (digest >> 16) & 15, (u64)i & 15};
        u64 mask[4] = {~0ull, digest, 1ull << 63, 0};
        asm volatile(
            "vmovdqu %0, %%ymm3\n vmovdqu %3, %%ymm14\n vmovdqu %4, %%ymm5\n" KERNEL
            "vpgatherqq %%ymm5, (%5,%%ymm14,8), %%ymm3\n vpermq $0x1b, %%ymm3, %%ymm7\n vmovdqu %4, %%ymm5\n"
            "vpsllvq %%ymm14, %%ymm3, %%ymm8\n vpshufb %%ymm7, %%ymm8, %%ymm9\n vpaddd %%ymm9, %%ymm3, %%ymm3\n"
            "vextracti128 $1, %%ymm3, %%xmm10\n vinserti128 $0, %%xmm10, %%ymm9, %%ymm9\n vpxor %%ymm9, %%ymm8, %%ymm8\n"
            "vmaskmovpd %%ymm8, %%ymm5, %1\n vcvtdq2pd %%xmm9, %%ymm2\n vfmadd231pd %%ymm2, %%ymm2, %%ymm2\n"
            "vptest %%ymm8, %%ymm3\n setc %%al\n vpaddq %%ymm2, %%ymm3, %%ymm3\n vmovdqu %%ymm3, %2\n vzeroupper\n"
            : "+m"(block), "+m"(out), "=m"(block) : "m"(index), "m"(mask), "r"(table)
            : "xmm2", "xmm3", "xmm5", "xmm7", "xmm8", "xmm9", "xmm10", "xmm14", "cc", "memory", KERNEL_CLOBBERS);
        digest = mix_bytes(mix_bytes(digest, block, sizeof block), out, sizeof out);
    }
    return digest;
}
