// After a system call rcx holds the address behind it, r11 the flags, every
// other register its old value; an unknown number gives ENOSYS.
// build: cc -O1
// run: oracle own-functions
#include <stdio.h>
int main(void) {
    unsigned long rcx, r11, rax, at, sum;
    for (int i = 0; i < 3; i++) {
        asm volatile("mov $1, %%rbx; mov $2, %%rdx; mov $3, %%rsi; mov $4, %%rdi; mov $5, %%r8; mov $6, %%r9; mov $7, %%r10; mov $8, %%r12;"
                     "mov $9, %%r13; mov $10, %%r14; mov $11, %%r15; lea 1f(%%rip), %%rax; mov %%rax, %3; cmp %%eax, %%eax; stc; mov $100000, %%eax; syscall\n1:\t"
                     "mov %%r11, %1; mov %%rax, %2; mov %%rcx, %0; xor %%eax, %%eax; lea (%%rbx,%%rdx,2), %%rax; lea (%%rax,%%rsi,4), %%rax; lea (%%rax,%%rdi,8), %%rax;"
                     "add %%r8, %%rax; imul $3, %%rax; add %%r9, %%rax; imul $3, %%rax; add %%r10, %%rax; imul $3, %%rax; add %%r12, %%rax; imul $3, %%rax; add %%r13, %%rax;"
                     "imul $3, %%rax; add %%r14, %%rax; imul $3, %%rax; add %%r15, %%rax"
                     : "=m"(rcx), "=m"(r11), "=m"(rax), "=m"(at), "=&a"(sum)
                     : : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory");
        printf("rcx %d r11 %lx rax %ld sum %lu\n", rcx == at, r11 & 0xcd5, (long)rax, sum);
    }
    return 0;
}
