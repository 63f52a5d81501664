// Far calls, jumps and returns within 64-bit code, mixed with near ones: functions that are called one way and return
// the other, that are entered by a far jump, and that are left for a caller's caller; loops with far jumps.
// build: cc -O1 -no-pie -fcf-protection=none
// run: oracle own-functions
#include <stdint.h>
#include <stdio.h>
struct pointer { uint32_t offset; uint16_t selector; } __attribute__((packed));
#define POINTER(name) extern char name[]; struct pointer to_##name;
POINTER(far_leaf) POINTER(far_deep) POINTER(near_leaf) POINTER(loop_head) POINTER(loop_out) POINTER(by_turns_far)
extern long call_far(long n), call_deep(long n), lret_near(long n), iret_near(long n), tail_far(long n), loop_far(long n), unwind_far(long n), by_turns(long n);
#define FUNCTION(name) ".globl " #name "\n.type " #name ",@function\n" #name ":\n"
#define END(name) ".size " #name ", . - " #name "\n"
asm(".text\n"
    FUNCTION(near_leaf) "lea 1(%rdi), %rax\n ret\n" END(near_leaf)
    // Called by lcall, returns by lret.
    FUNCTION(far_leaf) "lea 2(%rdi), %rax\n lretl\n" END(far_leaf)
    FUNCTION(far_deep) "push %rbx\n mov %rdi, %rbx\n call near_leaf\n mov %rax, %rdi\n lcall *to_far_leaf\n add %rbx, %rax\n pop %rbx\n lretl\n" END(far_deep)
    FUNCTION(call_far) "lcall *to_far_leaf\n add $1, %rax\n ret\n" END(call_far)
    FUNCTION(call_deep) "lcall *to_far_deep\n add $1, %rax\n ret\n" END(call_deep)
    // Called by call, return by lretq and by iretq.
    FUNCTION(lret_near) "push %rdi\n call near_leaf\n pop %rdi\n pop %rcx\n push $0x33\n push %rcx\n lretq\n" END(lret_near)
    FUNCTION(iret_near) "push %rdi\n call near_leaf\n pop %rdi\n mov (%rsp), %rcx\n lea 8(%rsp), %rdx\n"
    " push $0x2b\n push %rdx\n pushfq\n push $0x33\n push %rcx\n iretq\n" END(iret_near)
    // A tail call.
    FUNCTION(tail_far) "add $5, %rdi\n ljmp *to_near_leaf\n" END(tail_far)
    // Jumps within a function.
    FUNCTION(loop_far) "xor %eax, %eax\n" "loop_head: add %rdi, %rax\n test $1, %dil\n jz 1f\n add $7, %rax\n 1: dec %rdi\n jz 2f\n ljmp *to_loop_head\n"
    " 2: ljmp *to_loop_out\n hlt\n" "loop_out: inc %rax\n ret\n" END(loop_far)
    // The second returns to the caller of the first, by lretq.
    FUNCTION(unwind_far) "call unwind_inner\n hlt\n" END(unwind_far)
    FUNCTION(unwind_inner) "call near_leaf\n add $8, %rsp\n pop %rcx\n push $0x33\n push %rcx\n lretq\n" END(unwind_inner)
    // Calls itself, near and far by turns.
    FUNCTION(by_turns) "mov %rdi, %rax\n dec %rdi\n jle 1f\n push %rax\n lcall *to_by_turns_far\n pop %rcx\n add %rcx, %rax\n 1: ret\n" END(by_turns)
    FUNCTION(by_turns_far) "mov %rdi, %rax\n dec %rdi\n jle 1f\n push %rax\n call by_turns\n pop %rcx\n add %rcx, %rax\n 1: lretl\n" END(by_turns_far));
__attribute__((noinline)) static long each(long n) {
    return call_far(n) + 3 * call_deep(n) + 5 * lret_near(n) + 7 * iret_near(n) + 11 * tail_far(n) + 13 * loop_far(n) + 17 * unwind_far(n) + 19 * by_turns(n);
}
int main(void) {
#define SET(name) to_##name = (struct pointer){(uint32_t)(uintptr_t)name, 0x33}
    SET(far_leaf), SET(far_deep), SET(near_leaf), SET(loop_head), SET(loop_out), SET(by_turns_far);
    long sum = 0;
    for (long n = 1; n < 60; n++) sum = sum * 3 + each(n % 7 + 1);
    printf("%ld\n", sum);
    return 0;
}
