// The gs base is the program's: set by arch_prctl and wrgsbase, used by
// gs-relative loads and stores, kept over calls and system calls; fs too.
// build: cc -O1 -mfsgsbase
// run: needs fsgsbase
// run: oracle own-functions
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <stdio.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
static unsigned long area[4] = {11, 22, 33, 44}, other[4] = {5, 6, 7, 8};
static unsigned long gs8(void) { unsigned long v; asm volatile("mov %%gs:8, %0" : "=r"(v)); return v; }
int main(void) {
    unsigned long base = 1;
    syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
    printf("at start %lu\n", base);
    syscall(SYS_arch_prctl, ARCH_SET_GS, area);
    printf("%lu\n", gs8());
    asm volatile("incq %%gs:8; addq $5, %%gs:(%0)" : : "r"(16L) : "memory");
    printf("%lu %lu %d\n", area[1], area[2], _readgsbase_u64() == (unsigned long)area);
    _writegsbase_u64((unsigned long)other);
    getppid();
    printf("%lu\n", gs8());
    syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
    printf("%d\n", base == (unsigned long)other);
    unsigned long fs = _readfsbase_u64();
    syscall(SYS_arch_prctl, ARCH_GET_FS, &base);
    printf("fs %d %d\n", fs == base, *(unsigned long *)fs == fs);
    unsigned short sel;
    asm volatile("mov %%gs, %0" : "=r"(sel));
    printf("selector %u\n", sel);
    return 0;
}
