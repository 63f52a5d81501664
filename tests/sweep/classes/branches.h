// Indirect calls and jumps, recursion, returns to pushed addresses, loop and jrcxz.
#include "../common.h"
static u64 work_twice(u64 v) { return v * 2 + 1; }
static u64 work_fold(u64 v) { return v ^ (v >> 7); }
static u64 work_deep(u64 v) { return v & 31 ? work_deep(v - 1) + 3 : v; }
static u64 (*const volatile work_table[])(u64) = {work_twice, work_fold, work_deep};
static u64 work(u64 seed) {
    static const void *const labels[] = {&&zero, &&one, &&two, &&three};
    u64 digest = seed;
    for (unsigned i = 0; i < 40; i++) {
        u64 v = work_table[digest % 3](digest), n = 1 + (digest & 7), sum = 0;
        goto *labels[v & 3];
    zero:
        asm volatile("1: add %%rcx, %0\n loop 1b\n jrcxz 2f\n ud2\n 2:" : "+r"(sum), "+c"(n) : : "cc");
        goto end;
    one:
        asm volatile("lea 1f(%%rip), %%rax\n push %%rax\n add $5, %0\n ret\n ud2\n"
                     "1:" : "+r"(sum) : : "rax", "cc", "memory");
        goto end;
    two:
        asm volatile("call 1f\n add $9, %0\n jmp 2f\n 1: add $2, %0\n ret $0\n"
                     "2:" : "+r"(sum) : : "cc", "memory");
        goto end;
    three:
        switch (v % 11) {
        case 0: sum = 5; break;
        case 1: sum = v ^ 9; break;
        case 2: sum = 77; break;
        case 5: sum = ~v; break;
        case 7: sum = v >> 3; break;
        case 9: sum = work_deep(17); break;
        default: sum = 1;
        }
    end:
        digest = mix(mix(digest, v), sum);
    }
    return digest;
}
