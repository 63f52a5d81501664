// SSE integers up to SSE 4.2: shuffles, packs, string comparisons, crc32; MMX with emms.
// needs: sse4_2 ssse3
#include "../common.h"
static u64 work(u64 seed) {
    u64 digest = seed;
    for (int i = 0; i < 20; i++) {
        u64 block[4] = {digest, seed + i, ~digest, 0x0706050403020100}, index, sum = seed, mask;
        asm volatile(
            "movdqu %0, %%xmm0\n movdqu 16%0, %%xmm8\n pshufb %%xmm8, %%xmm0\n paddusb %%xmm8, %%xmm0\n"
            "pmaddwd %%xmm0, %%xmm8\n packuswb %%xmm8, %%xmm0\n palignr $5, %%xmm8, %%xmm0\n phaddw %%xmm0, %%xmm0\n"
            "pcmpestri $0x0c, %%xmm8, %%xmm0\n mov %%rcx, %1\n pmovmskb %%xmm8, %k3\n crc32q %1, %2\n crc32b %b3, %2\n"
            "movq %4, %%mm3\n paddsw %%mm3, %%mm3\n pmuludq %%mm3, %%mm3\n movq2dq %%mm3, %%xmm9\n emms\n"
            "mpsadbw $5, %%xmm9, %%xmm8\n pblendw $0x5a, %%xmm8, %%xmm0\n movdqu %%xmm0, %0\n movdqu %%xmm8, 16%0\n"
            : "+o"(block), "=&r"(index), "+r"(sum), "=&r"(mask) : "m"(digest), "a"(9L), "d"(14L)
            : "rcx", "xmm0", "xmm8", "xmm9", "mm3", "cc", "memory");
        digest = mix_bytes(mix(mix(mix(digest, index), sum), mask), block, sizeof block);
    }
    return digest;
}
