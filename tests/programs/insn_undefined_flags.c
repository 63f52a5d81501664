// Flags that an instruction leaves undefined are what they were, or follow from its operands: a
// processor says the same each time, and a program can see it. So nothing may change flags before
// such an instruction for all are overwritten behind it.
// build: cc -O1
// run: oracle
#include <stdio.h>

static unsigned long hash;
static void add(unsigned long flags) { hash = (hash ^ (flags & 0x8d5)) * 0x9e3779b97f4a7c15; }

#define FLAGS_OF(name, code) \
    __attribute__((noinline)) static unsigned long name(unsigned long before, unsigned long a, unsigned long b) { \
        unsigned long flags, c = a, d = b; \
        __asm__ volatile("lea -128(%%rsp), %%rsp\n push %3\n popfq\n " code "\n pushfq\n pop %0\n lea 128(%%rsp), %%rsp" \
                         : "=&r"(flags), "+a"(c), "+d"(d) : "r"(before), "c"(b) : "cc", "memory"); \
        return flags; \
    }
FLAGS_OF(mul, "mul %%rcx")
FLAGS_OF(imul, "imul %%rcx, %%rax")
FLAGS_OF(bit_test, "bt %%rcx, %%rax")
FLAGS_OF(bit_set, "bts $5, %%eax")
FLAGS_OF(scan, "bsf %%rcx, %%rax")
FLAGS_OF(reverse, "bsr %%rcx, %%rax")
FLAGS_OF(divide, "xor %%edx, %%edx; mov $3, %%ecx; div %%ecx")
FLAGS_OF(shift, "shl %%cl, %%rax")
FLAGS_OF(twice, "shld %%cl, %%rax, %%rdx")
FLAGS_OF(logic, "and %%rcx, %%rax")
static unsigned long (*const all[])(unsigned long, unsigned long, unsigned long) = {
    mul, imul, bit_test, bit_set, scan, reverse, divide, shift, twice, logic};

int main(void) {
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        hash = i;
        for (unsigned long before = 0; before < 64; before += 5) {
            unsigned long flags = 2 | (before & 1) | (before & 2) << 1 | (before & 4) << 2 | (before & 8) << 3 |
                                  (before & 16) << 3 | (before & 32) << 6;
            for (unsigned long n = 0; n < 4; n++) add(all[i](flags, n * 0x123456789abcdef, n << (n & 31)));
        }
        printf("%u %lx\n", i, hash);
    }
}
