// 128 bytes below rsp survive branches, indirect jumps, and system calls.
// build: cc -O1
// run: oracle own-functions
// run: oracle-args 50
#include <stdio.h>
#include <stdlib.h>
extern unsigned long zone(unsigned long seed);
asm(".text\nzone: push %rbx; mov %rdi, %rax; mov $16, %ecx\n"
    "1: mov %rax, -136(%rsp,%rcx,8); imul $0x5851f42d, %rax; add $12345, %rax; dec %ecx; jnz 1b\n"
    "  lea 2f(%rip), %rdx; jmp *%rdx\n"
    "2: cmp $77, %rdi; je 3f; jmp 4f\n"
    "3: nop\n"
    "4: mov $39, %eax; syscall; lea 5f(%rip), %rdx; mov %rdx, %rbx; jmp *%rbx\n"
    "5: xor %eax, %eax; mov $16, %ecx\n"
    "6: rol $7, %rax; xor -136(%rsp,%rcx,8), %rax; loop 6b\n"
    "  pop %rbx; ret\n");
int main(int argc, char **argv) {
    unsigned long h = 0, rounds = argc > 1 ? atoi(argv[1]) : 3000;
    for (unsigned long i = 0; i < rounds; i++) h = h * 3 + zone(i);
   printf("%lx\n", h);
    return 0;
}
