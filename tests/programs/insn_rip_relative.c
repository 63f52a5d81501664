// rip-relative operands of every kind: lea, load, store, rmw, immediate
// behind the displacement, call and jmp through memory, push, pop, sse,
// x87, cmpxchg16b; and rip-relative data in the code itself.
// build: cc -O1 -pie -fPIE
// run: oracle own-functions
#include <stdio.h>
extern unsigned long routine(void);
asm(".text\n"
    "routine: lea data(%rip), %rcx\n"
    "  mov $5, %eax\n"
    "  addq %rax, data(%rip)\n"
    "  movq $0x12345, data+8(%rip)\n"
    "  cmpb $3, data+16(%rip)\n"
    "  movb $9, data+16(%rip)\n"
    "  shll $3, data+20(%rip)\n"
    "  imul $7, data+24(%rip), %rdx\n"
    "  add %rdx, %rax\n"
    "  lock incl data+28(%rip)\n"
    "  pushq data+8(%rip)\n"
    "  popq data+32(%rip)\n"
    "  movups data(%rip), %xmm0\n"
    "  paddq data+16(%rip), %xmm0\n"
    "  movups %xmm0, data+48(%rip)\n"
    "  call *pointer(%rip)\n"
    "  lea next(%rip), %rdx\n"
    "  mov %rdx, pointer2(%rip)\n"
    "  jmp *pointer2(%rip)\n"
    "  ud2\n"
    "inner: add $1000, %rax; ret\n"
    "incode: .quad 0x1122334455667788\n"
    "next: add incode(%rip), %rax\n"
    "  bt $3, incode(%rip)\n"
    "  adc $0, %rax\n"
    "  push %rbx\n"
    "  mov data(%rip), %rax; mov data+8(%rip), %rdx; mov $77, %ebx; mov $88, %ecx\n"
    "  lock cmpxchg16b data(%rip)\n"
    "  pop %rbx\n"
    "  fildl data+28(%rip)\n"
    "  fistpl data+64(%rip)\n"
    "  xchg %rax, data+72(%rip)\n"
    "  mov data+64(%rip), %eax\n"
    "  ret\n"
    ".section .data.rel,\"aw\"\n.balign 16\n"
    "data: .quad 1, 2, 3, 4, 5, 6, 7, 8, 9, 10\n"
    "pointer: .quad inner\npointer2: .quad 0\n.text\n");
extern unsigned long data[];
int main(void) {
    for (int round = 0; round < 3; round++) {
        unsigned long r = routine();
        printf("%lx:", r);
        for (int i = 0; i < 10; i++) printf(" %lx", data[i]);
        printf("\n");
    }
    return 0;
}
