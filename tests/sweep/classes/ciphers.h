// AES, carry-less products and SHA, with values kept in registers.
// needs: aes pclmulqdq sha_ni
#include "../common.h"
static u64 work(u64 seed) {
    u64 digest = seed;
    for (int i = 0; i < 16; i++) {
        u64 block[4] = {digest, seed + (u64)i, ~digest, seed * 7};
        asm volatile(
            "movdqu %0, %%xmm6\n movdqu 16%0, %%xmm11\n aesenc %%xmm11, %%xmm6\n aesimc %%xmm6, %%xmm12\n"
            "aeskeygenassist $7, %%xmm12, %%xmm13\n aesdeclast %%xmm13, %%xmm6\n" KERNEL
            "pclmulqdq $0x10, %%xmm11, %%xmm6\n movdqa %%xmm6, %%xmm0\n sha256rnds2 %%xmm0, %%xmm12, %%xmm11\n"
            "sha256msg1 %%xmm13, %%xmm12\n sha256msg2 %%xmm12, %%xmm6\n sha1rnds4 $2, %%xmm13, %%xmm11\n"
            "movdqu %%xmm6, %0\n movdqu %%xmm11, 16%0\n"
            : "+o"(block) : : "xmm0", "xmm6", "xmm11", "xmm12", "xmm13", "cc", "memory", KERNEL_CLOBBERS);
        digest = mix_bytes(digest, block, sizeof block);
    }
    return digest;
}
