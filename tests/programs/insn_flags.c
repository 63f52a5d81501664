// Flags survive everything: lahf/sahf, pushf/popf with DF, carry across calls,
// returns, indirect jumps and system calls, adc/sbb chains, cmov, setcc.
// build: cc -O1
// run: oracle
#include <stdio.h>
extern unsigned long chain(unsigned long x);
asm(".text\nchain: push %rbx; xor %eax, %eax; mov %rdi, %rbx\n"
    "  stc; call leaf; adc $0, %rax\n"
    "  cmp $5, %rbx; lea 1f(%rip), %rcx; jmp *%rcx\n"
    "1: setb %cl; movzx %cl, %ecx; lea (%rax,%rcx,4), %rax\n"
    "  clc; call leaf; adc $8, %rax\n"
    "  xor %ecx, %ecx; cmp %rbx, %rbx; jmp 2f\n"
    "2: cmovz %rbx, %rcx; add %rcx, %rax\n"
    "  stc; call *leafp(%rip); sbb $0, %rax\n"
    "  std; pushf; cld; popf; pushf; pop %rcx; cld; shr $10, %rcx; and $1, %ecx; shl $20, %rcx; add %rcx, %rax\n"
    "  mov %rax, %rdx; mov $0xd5, %ah; sahf; mov $0, %ah; lahf; movzx %ah, %ecx; lea (%rdx,%rcx), %rax\n"
    "  mov $0x7fffffff, %ecx; add $1, %ecx; call leaf; seto %cl; movzx %cl, %ecx; shl $24, %rcx; add %rcx, %rax\n"
    "  pushf; orq $0xcd5, (%rsp); popf; mov %rax, %rbx; mov $39, %eax; syscall; mov %rbx, %rax; pushf; pop %rcx; cld; and $0xcd5, %ecx; shl $32, %rcx; add %rcx, %rax\n"
    "  pop %rbx; ret\n"
    "leaf: ret\n.data\nleafp: .quad leaf\n.text\n");
int main(void) { for (int i = 0; i < 10; i++) printf("%lx\n", chain(i)); return 0; }
