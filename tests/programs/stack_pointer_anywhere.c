// rsp as a general register that holds any value while functions are entered by jumps: above all
// stacks, in the upper half of addresses, at none. Activations are told apart by it, and whoever
// waits for those below such a value to end waits for ever.
// build: cc -O1
// run: no-oracle rsp holds numbers there; activations are told by it
#include <stdio.h>

unsigned long through(unsigned long value, unsigned long count);
asm(".text\n"
    ".globl first, second, through, back\n"
    ".type through, @function\nthrough: push %rbx; push %rbp; mov %rsp, %rbp; xor %eax, %eax; mov %rdi, %rsp\n"
    "  jmp first\n.size through, .-through\n"
    ".type first, @function\nfirst: add %rsp, %rax; rol $7, %rax; lea second(%rip), %rbx; jmp *%rbx\n.size first, .-first\n"
    ".type second, @function\nsecond: xor %rsp, %rax; lea 8(%rsp), %rsp; dec %rsi; jnz first\n"
    "  neg %rsp; add %rsp, %rax; lea back(%rip), %rbx; jmp *%rbx\n.size second, .-second\n"
    ".type back, @function\nback: mov %rsp, %rcx; xchg %rcx, %rsp; mov %rbp, %rsp; pop %rbp; pop %rbx; ret\n.size back, .-back\n");

__attribute__((noinline)) static unsigned long deeper(unsigned long value, int depth) {
    return depth ? deeper(value, depth - 1) * 3 + through(value, 2) : through(value, 5);
}

int main(void) {
    unsigned long values[] = {0, 1, 1ul << 46, (1ul << 47) - 8, 1ul << 47, (1ul << 47) + 1, 1ul << 55, (1ul << 55) + 1,
                              1ul << 56, 1ul << 62, 1ul << 63, (1ul << 63) + 1, ~0ul << 47, ~0ul - 7, ~0ul};
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++)
        printf("%lx: %lx %lx\n", values[i], through(values[i], 4), deeper(values[i], 3));
    return 0;
}
