// Repeated string instructions, forwards and backwards, and their implied registers.
#include "../common.h"
static u64 work(u64 seed) {
    unsigned char from[300], to[300] = {0};
    u64 digest = seed;
    for (int i = 0; i < 300; i++) from[i] = (unsigned char)((digest >> (i % 57)) + i);
    for (int i = 1; i < 12; i++) {
        void *s = from, *d = to;
        u64 n = 250 + i;
        asm volatile("rep movsb" : "+S"(s), "+D"(d), "+c"(n) : : "memory");
        digest = mix(mix(digest, (u64)((char *)d - (char *)to)), n);
        d = to + 299, n = 13;
        asm volatile("std\n rep stosb\n cld" : "+D"(d), "+c"(n) : "a"(seed) : "memory");
        s = from, d = to, n = 300;
        asm volatile("repe cmpsb" : "+S"(s), "+D"(d), "+c"(n) : : "memory", "cc");
        digest = mix(digest, n);
        d = to, n = 37;
        asm volatile("repne scasq" : "+D"(d), "+c"(n) : "a"(digest) : "memory", "cc");
        digest = mix(digest, n);
        s = from + i, d = to;
        asm volatile("lodsq\n stosl\n movsw\n lodsb\n stosb\n" : "+S"(s), "+D"(d) : : "rax", "memory");
        asm volatile("mov %1, %%rsi\n mov %2, %%rdi\n mov $30, %%r8d\n 1: movsq\n dec %%r8d\n jnz 1b\n mov %%r8, %0\n"
                     : "=r"(n) : "r"(from + 7), "r"(to + 3) : "rsi", "rdi", "r8", "memory", "cc");
        digest = mix_bytes(digest, to, sizeof to);
        from[i] ^= digest;
    }
    return digest;
}
