// rsp used as a counter and as a data pointer, with branches and indirect
// jumps between: nothing may be pushed behind the program's back.
// build: cc -O1
// run: no-oracle rsp holds numbers there; activations are told by it
#include <stdio.h>
extern unsigned long odd(const unsigned long *data, unsigned long n);
asm(".text\nodd: push %rbx; push %rbp; mov %rsp, %rbp; xor %eax, %eax\n"
    "  mov %rdi, %rsp; lea (%rdi,%rsi,8), %rdx\n"
    "1: pop %rcx; lea 2f(%rip), %rbx; jmp *%rbx\n"
    "2: rol $5, %rax; add %rcx, %rax; cmp %rdx, %rsp; jb 1b\n"
    "  mov $10, %rsp\n"
    "3: add %rsp, %rax; rol $3, %rax; lea 4f(%rip), %rbx; jmp *%rbx\n"
    "4: dec %rsp; jnz 3b\n"
    "  mov $0x8000000000000001, %rsp; ror $1, %rsp; add %rsp, %rax\n"
    "  mov %rbp, %rsp; pop %rbp; pop %rbx; ret\n");
static const unsigned long data[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9};
int main(void) { for (int i = 1; i <= 15; i++) printf("%lx\n", odd(data, i)); return 0; }
