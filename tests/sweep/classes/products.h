// Multiplications and divisions with implied registers, all operand sizes.
#include "../common.h"
static u64 work(u64 seed) {
    u64 digest = seed;
    for (int i = 1; i < 20; i++) {
        u64 a = digest, d = seed, by = (digest >> 13) | 1;
        asm volatile("mul %2" : "+a"(a), "=&d"(d) : "r"(by) : "cc");
        digest = mix(mix(digest, a), d);
        asm volatile("imul %2" : "+a"(a), "=&d"(d) : "r"(by) : "cc");
        digest = mix(mix(digest, a), d);
        d %= by;
        asm volatile("div %2" : "+a"(a), "+d"(d) : "r"(by) : "cc");
        digest = mix(mix(digest, a), d);
        asm volatile("cqo\n idiv %2" : "+a"(a), "=&d"(d) : "r"((u64)i * 77) : "cc");
        digest = mix(mix(digest, a), d);
        asm volatile("cltd\n idivl %k2" : "+a"(a), "=&d"(d) : "r"((u64)i + 2) : "cc");
        digest = mix(mix(digest, a), d);
        asm volatile("movzbl %b0, %k0\n divb %b1\n imul $-7, %0, %0\n" : "+a"(a) : "r"((u64)i + 100) : "cc");
        asm volatile("imul %1, %0" : "+r"(by) : "r"(a) : "cc");
        digest = mix(mix(digest, a), by);
    }
    return digest;
}
