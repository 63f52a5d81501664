// Carries, borrows and conditions: flags live across other instructions and a system call.
#include "../common.h"
static u64 work(u64 seed) {
    u64 digest = seed;
    for (int i = 0; i < 20; i++) {
        u64 a = digest, b = ~seed + i, flags;
        asm volatile(
            "add %1, %0\n adc $0x7fffffff, %1\n sbb %0, %1\n inc %0\n adc %1, %0\n"
            "lea 3(%0,%1,4), %%r8\n neg %%r8\n cmovc %%r8, %0\n dec %1\n sbb %%r9, %%r9\n"
            "xor %%r9, %1\n cmp %0, %1\n setl %%r8b\n setp %%r9b\n movzx %%r8b, %%r8d\n"
            "adcb %%r9b, %%r8b\n adcw %%r8w, %w1\n adcl %%r8d, %k0\n cmc\n rcl $3, %0\n"
            "stc\n rcr $1, %1\n" KERNEL "sub %1, %0\n pushf\n pop %2\n"
            : "+r"(a), "+r"(b), "=&r"(flags) : : "r8", "r9", "cc", "memory", KERNEL_CLOBBERS);
        digest = mix(mix(mix(digest, a), b), flags & ARITHMETIC_FLAGS);
    }
    return digest;
}
