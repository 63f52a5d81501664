// loop, loope, loopne, jrcxz, jecxz: counts, flags untouched, upper half of
// rcx, near and far enough apart to need a trampoline.
// build: cc -O1
// run: oracle own-functions
// run: oracle-args 1000
#include <stdlib.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000000;
    unsigned long n, c, f;
    asm volatile("mov $1000, %%ecx; xor %%eax, %%eax; 1: inc %%rax; loop 1b" : "=a"(n), "=c"(c));
    printf("loop %lu %lu\n", n, c);
    asm volatile("mov $1000, %%ecx; xor %%eax, %%eax; 1: inc %%rax; cmp $77, %%rax; loopne 1b; pushf; pop %2" : "=a"(n), "=c"(c), "=r"(f));
    printf("loopne %lu %lu %lx\n", n, c, f & 0x8d5);
    asm volatile("mov $50, %%ecx; xor %%eax, %%eax; 1: inc %%rax; cmp %%eax, %%eax; loope 1b; pushf; pop %2" : "=a"(n), "=c"(c), "=r"(f));
    printf("loope %lu %lu %lx\n", n, c, f & 0x8d5);
    asm volatile("mov $7, %%ecx; xor %%eax, %%eax; 1: dec %%rcx; inc %%rax; jrcxz 2f; jmp 1b; 2:" : "=a"(n), "=c"(c));
    printf("jrcxz %lu %lu\n", n, c);
    asm volatile("mov $0x100000000, %%rcx; xor %%eax, %%eax; jrcxz 2f; inc %%eax; 2: jecxz 3f; add $10, %%eax; 3:" : "=a"(n), "=c"(c));
    printf("jecxz %lu %lx\n", n, c);
    asm volatile("mov $0x300000003, %%rcx; xor %%eax, %%eax; 1: inc %%rax; addr32 loop 1b" : "=a"(n), "=c"(c));
    printf("addr32 loop %lu %lx\n", n, c);
    asm volatile("stc; mov $3, %%ecx; 1: loop 1b; setc %%al; movzx %%al, %%eax" : "=a"(n), "=c"(c));
    printf("carry kept %lu\n", n);
    asm volatile("mov $5, %%ecx; xor %%eax, %%eax; jmp 2f; 1: add $3, %%rax; .fill 100, 1, 0x90; 2: loop 1b" : "=a"(n), "=c"(c));
    printf("forward %lu\n", n);
    asm volatile("xor %%ecx, %%ecx; xor %%eax, %%eax; 1: inc %%rax; cmp %2, %%rax; je 2f; loop 1b; 2:" : "=&a"(n), "=&c"(c) : "r"((long)rounds));
    printf("wrap %lu %lx\n", n, c);
    return 0;
}
