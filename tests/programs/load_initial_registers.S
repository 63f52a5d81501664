// At the first instruction of a static program: general registers and flags
// are clear, rsp is 16-byte aligned and points at argc. Exit status tells.
// build: cc -nostdlib -static -no-pie
// run: exit 0
// run: oracle
        .globl _start
        .type _start, @function
_start: mov %rsp, saved(%rip)
        pushf
        pop flags(%rip)
        or %rbx, %rax
        or %rcx, %rax
        or %rdx, %rax
        or %rsi, %rax
        or %rdi, %rax
        or %rbp, %rax
        or %r8, %rax
        or %r9, %rax
        or %r10, %rax
        or %r11, %rax
        or %r12, %rax
        or %r13, %rax
        or %r14, %rax
        or %r15, %rax
        mov $1, %edi
        jnz out
        mov $2, %edi
        testb $15, saved(%rip)
        jnz out
        mov $3, %edi
        cmpq $1, (%rsp)
        jne out
        mov $4, %edi
        mov flags(%rip), %rax
        and $~0x100, %rax
        cmp $0x202, %rax
        jne out
        mov $5, %edi
        stmxcsr word(%rip)
        cmpl $0x1f80, word(%rip)
        jne out
        mov $6, %edi
        fnstcw word(%rip)
        cmpw $0x37f, word(%rip)
        jne out
        xor %edi, %edi
out:    mov $60, %eax
        syscall
        .size _start, .-_start
        .bss
        .align 8
saved:  .quad 0
flags:  .quad 0
word:   .quad 0
        .section .note.GNU-stack,"",@progbits
