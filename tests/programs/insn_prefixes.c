// Odd encodings: addr32, redundant prefixes, bnd and notrack branches, rex
// before branches, long nops, endbr64, lock forms.
// build: cc -O1
// run: oracle own-functions
#include <stdio.h>
extern unsigned long odd(unsigned long x, unsigned long *memory);
asm(".text\nodd: endbr64\n mov %rdi, %rax\n"
    " .byte 0x48; jmp 1f\n ud2\n1: .byte 0xf2; call 2f\n"       // rex jmp, bnd call
    " .byte 0x2e; je 3f\n nop\n3: .byte 0x3e; jne 4f\n nop\n4:\n" // hints
    " lea 5f(%rip), %rdx\n .byte 0x3e; jmp *%rdx\n ud2\n5:\n"   // notrack
    " .byte 0x66,0x66,0x2e,0x0f,0x1f,0x84,0,0,0,0,0\n nopw 512(%rax,%rax,1)\n"
    " .byte 0x48,0x66,0x83,0xc0,0x05\n"                          // ignored rex, add $5,%ax
    " lock xadd %rax, (%rsi)\n lock orl $16, 8(%rsi)\n xchg %rax, (%rsi)\n"
    " add32: lea 3(%eax), %ecx\n mov %ecx, %ecx\n add %rcx, %rax\n"
    " .byte 0xf3,0x90\n .byte 0x87,0xc9\n"
    " .byte 0xf2; ret\n2: rep ret\n");
int main(void) {
    unsigned long memory[2] = {7, 1};
    for (int i = 0; i < 5; i++) { unsigned long r = odd(i * 0x100000001, memory); printf("%lx %lx %lx\n", r, memory[0], memory[1]); }
    return 0;
}
