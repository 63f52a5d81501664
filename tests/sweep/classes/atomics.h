// Locked instructions and their implied registers.
#include "../common.h"
static u64 work(u64 seed) {
    _Alignas(16) u64 cell[2] = {seed, ~seed};
    u64 digest = seed;
    for (int i = 0; i < 20; i++) {
        u64 a = digest, low = cell[0], high = cell[1] ^ (u64)(i & 1);
        unsigned char equal, carry;
        asm volatile("lock cmpxchg16b %0\n setz %3" : "+m"(cell), "+a"(low), "+d"(high), "=q"(equal) : "b"(digest), "c"(seed) : "cc", "memory");
        digest = mix(mix(mix(digest, low), high), equal);
        asm volatile("lock xadd %1, %0\n xchg %1, 8%0\n lock btsq $17, %0\n setc %2\n lock incq 8%0\n lock negl 4%0\n lock orw $0x55, 9%0"
                     : "+o"(cell), "+r"(a), "=q"(carry) : : "cc", "memory");
        low = cell[0];
        asm volatile("lock cmpxchg %2, %0\n setz %3\n mfence\n lock sbbb $3, 3%0" : "+o"(cell), "+a"(low), "+r"(a), "=q"(equal) : : "cc", "memory");
        digest = mix_bytes(mix(mix(digest, a), (u64)(carry * 2 + equal)), cell, sizeof cell);
    }
    return digest;
}
