// Shifts, rotations, scans, bit tests in memory, and BMI.
// needs: bmi1 bmi2 abm popcnt
#include "../common.h"
static u64 work(u64 seed) {
    u64 digest = seed, field[4] = {seed, ~seed, seed * 3, 5};
    for (int i = 0; i < 20; i++) {
        u64 a = digest | 1, b = seed ^ i, c;
        asm volatile(
            "bsf %0, %2\n bsr %0, %%r8\n add %%r8, %2\n popcnt %1, %%r8\n lzcnt %0, %%r9\n tzcnt %1, %%r10\n"
            "lea (%%r8,%%r9,2), %%r8\n add %%r10, %2\n shld $7, %0, %1\n shrd $9, %1, %0\n bswap %0\n"
            "mov %2, %%rcx\n rol %%cl, %0\n ror %%cl, %1\n sar $5, %%r8\n add %%r8, %2\n"
            "andn %0, %1, %%r8\n blsr %%r8, %%r9\n blsi %%r9, %%r10\n blsmsk %%r8, %%r8\n xor %%r8, %2\n"
            "pext %1, %0, %%r8\n pdep %0, %1, %%r9\n bextr %%r10, %0, %%r10\n xor %%r8, %0\n add %%r9, %1\n"
            "rorx $11, %0, %%r8\n shlx %%r9, %0, %%r9\n sarx %%r10, %1, %%r10\n mulx %%r8, %%r8, %%r9\n xor %%r9, %2\n"
            : "+r"(a), "+r"(b), "=&r"(c) : "d"(seed) : "rcx", "r8", "r9", "r10", "cc");
        u64 at = digest & 255, other = b & 127;
        asm volatile("btsq %1, %0\n setc %%al\n btrq %2, %0\n btcq %1, %0\n"
                     : "+m"(field) : "r"(at), "r"(other) : "rax", "cc", "memory");
        digest = mix(mix(mix(digest, a), b), c);
        digest = mix_bytes(digest, field, sizeof field);
    }
    return digest;
}
