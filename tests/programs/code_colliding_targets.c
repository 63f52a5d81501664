// Functions whose addresses share all bits that indirect branches are looked up
// by, called directly for a while and then indirectly, between code that is new:
// chains are cut and made anew, with landing pads that lie apart from their
// functions, in parts of the cache that are evicted meanwhile. A few at a time, so
// that a chain lives on after that.
// build: cc -O1
// run: no-oracle it calls code that it wrote, a hundred thousand times
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
enum { TARGETS = 12, COLD = 6000, ROUNDS = 20, SOME = 5, PHASE = 300 };
typedef unsigned (*function)(void);
static unsigned next(unsigned *state) { return *state = *state * 1664525u + 1013904223u; }
// mov eax, imm32; ret
static void write_function(unsigned char *at, unsigned value) {
    at[0] = 0xb8;
    memcpy(at + 1, &value, 4);
    at[5] = 0xc3;
}
// call rel32; ret
static void write_caller(unsigned char *at, const unsigned char *target) {
    int distance = target - (at + 5);
    at[0] = 0xe8;
    memcpy(at + 1, &distance, 4);
    at[5] = 0xc3;
}
int main(void) {
    int prot = PROT_READ | PROT_WRITE | PROT_EXEC, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    size_t far_len = (size_t)TARGETS << 20, all = far_len + (COLD + TARGETS) * 16;
    unsigned char *far = mmap(0, all, prot, flags, -1, 0), *cold = far + far_len, *callers = cold + COLD * 16;
    for (unsigned i = 0; i < TARGETS; i++) {
        write_function(far + ((size_t)i << 20), i * i);
        write_caller(callers + i * 16, far + ((size_t)i << 20));
    }
    for (unsigned i = 0; i < COLD; i++)
        write_function(cold + i * 16, i);
    mprotect(far, all, PROT_READ | PROT_EXEC);
    unsigned state = 1, sum = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < COLD; i++) {
            sum = sum * 31 + ((function)(cold + i * 16))();
            for (int k = 0; k < 4; k++) {
                unsigned which = (i / PHASE / 2 * SOME + (next(&state) >> 16) % SOME) % TARGETS;
                unsigned char *at = i / PHASE % 2 ? far + ((size_t)which << 20) : callers + which * 16;
                sum = sum * 31 + ((function)at)();
            }
        }
    printf("%08x\n", sum);
    return 0;
}
