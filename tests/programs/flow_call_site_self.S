// A function reads its own return address and the bytes of the call before
// it, then returns past an inline word; jumps into the middle of another.
// build: cc -nostdlib -static -no-pie
// run: exit 105
// run: oracle own-functions
        .globl _start
        .type _start, @function
_start: xor %ebx, %ebx
        mov $5, %r12d
1:      call skipper
        .long 17
        add %eax, %ebx
        call outer
        add %eax, %ebx
        dec %r12d
        jnz 1b
        mov %ebx, %edi
        mov $60, %eax
        syscall
        .size _start, .-_start
        .type skipper, @function
skipper:
        mov (%rsp), %rdx
        cmpb $0xe8, -5(%rdx)
        jne 2f
        mov (%rdx), %eax
        addq $4, (%rsp)
2:      ret
        .size skipper, .-skipper
        .type outer, @function
outer:  mov $1, %eax
        jmp inside
        .size outer, .-outer
        .type other, @function
other:  mov $100, %eax
inside: add $3, %eax
        ret
        .size other, .-other
        .section .note.GNU-stack,"",@progbits
