// A program that copies its own text to anonymous memory and puts that in
// place of the file's pages, as programs do that want huge pages: the code
// runs on before, during and after.
// build: cc -O1 -fno-inline
// run: oracle own-functions
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
extern char __executable_start, etext;
volatile int three = 3; // The loops are run, not computed by the compiler.
int one(int x) { return x * three + 1; }
int two(int x) { return one(x) ^ 0x55; }
static unsigned run(void) { unsigned sum = 0; for (int i = 0; i < 300; i++) sum = sum * 7 + two(i); return sum; }
__attribute__((section("mover"), aligned(4096), noinline)) static long replace(char *from, char *to, long size) {
    long r;
    register long r10 asm("r10") = MREMAP_MAYMOVE | MREMAP_FIXED, r8 asm("r8") = (long)to;
    asm volatile("syscall" : "=a"(r) : "a"(25L), "D"(from), "S"(size), "d"(size), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return r;
}
int main(void) {
    unsigned before = run();
    char *start = (char *)((uintptr_t)one & -4096), *end = (char *)(((uintptr_t)main + 4096) & -4096);
    char *mover = (char *)((uintptr_t)replace & -4096);
    if (mover < end && mover >= start) end = mover;
    long size = end - start;
    for (int round = 0; round < 5; round++) {
        char *copy = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(copy, start, size);
        mprotect(copy, size, PROT_READ | PROT_EXEC);
        if (round & 1) madvise(copy, size, MADV_HUGEPAGE);
        long at = replace(copy, start, size);
        printf("%d: moved %d same %d\n", round, at == (long)start, run() == before);
    }
    return 0;
}
