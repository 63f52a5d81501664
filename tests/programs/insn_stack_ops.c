// push and pop of everything: memory through rsp, rsp itself, segment free
// forms, 16-bit, immediates; ret imm16; enter and leave; call/pop; push/ret;
// call through the stack pointer; the pushed return address is the program's.
// build: cc -O1 -fno-omit-frame-pointer
// run: oracle own-functions
#include <stdio.h>
extern void run(unsigned long *out);
asm(".text\nrun: push %rbx; push %rbp; mov %rdi, %rbx; mov %rsp, %rbp\n"
    "  push %rsp; pop %rax; sub %rbp, %rax; mov %rax, (%rbx)\n"
    "  push $-5; pop 8(%rbx)\n"
    "  pushq 8(%rbx); pop %rax; mov %rax, 16(%rbx)\n"
    "  push $17; pushq (%rsp); popq 24(%rbx); popq 32(%rbx)\n"
    "  push $18; push $19; pop (%rsp); pop 40(%rbx)\n"
    "  pushw $0x1234; pushw $0x5678; popw %ax; popw %dx; movzx %ax, %eax; mov %rax, 48(%rbx); movzx %dx, %edx; mov %rdx, 56(%rbx)\n"
    "  push $99; mov %rsp, %rax; pop %rsp; mov %rsp, %rcx; mov %rax, %rsp; add $8, %rsp; mov %rcx, 64(%rbx)\n"
    "  call 1f\n1: pop %rax; lea 1b(%rip), %rcx; sub %rcx, %rax; mov %rax, 72(%rbx)\n"
    "  lea 2f(%rip), %rax; push %rax; ret\n ud2\n2: movq $2, 80(%rbx)\n"
    "  push $1; push $2; push $3; call popper; mov %rax, 88(%rbx); mov %rbp, %rax; sub %rsp, %rax; mov %rax, 96(%rbx)\n"
    "  call entered; mov %rax, 104(%rbx)\n"
    "  lea retaddr(%rip), %rax; push %rax; call *(%rsp); pop %rcx; mov %rax, 112(%rbx)\n"
    "  lea retaddr(%rip), %rax; sub $64, %rsp; mov %rax, 32(%rsp); call *32(%rsp); add $64, %rsp; mov %rax, 120(%rbx)\n"
    "  mov %rsp, %rax; sub $16, %rsp; lea retaddr(%rip), %rdx; mov %rdx, -8(%rsp); call *-8(%rsp); mov %rax, 128(%rbx); add $16, %rsp\n"
    "  mov %rbp, %rsp; pop %rbp; pop %rbx; ret\n"
    "popper: mov 8(%rsp), %rax; imul $10, %rax; add 16(%rsp), %rax; imul $10, %rax; add 24(%rsp), %rax; ret $24\n"
    "entered: enter $32, $0; movq $6, -8(%rbp); mov %rbp, %rax; sub %rsp, %rax; add -8(%rbp), %rax; enter $16, $1; leave; leave; ret\n"
    "retaddr: mov (%rsp), %rax; mov (%rax), %al; movzx %al, %eax; ret\n");
int main(void) {
    unsigned long out[20] = {0};
    for (int round = 0; round < 2; round++) {
        run(out);
        for (int i = 0; i < 17; i++) printf("%ld ", (long)out[i]);
        printf("\n");
    }
    return 0;
}
