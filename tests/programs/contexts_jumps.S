// Contexts without compiler or libc: a tail call, falling through into the
// next function, jumping back into a caller, a call that pops its return
// address, a jump table, a return used as a jump, rep and loop.
// build: cc -nostdlib -static -no-pie
// run: exit 34
// run: oracle
// run: no-blocks jumps back into a function that a tail call left
        .macro function name
        .globl \name
        .type \name, @function
\name:
        .endm
        .text
        function _start
        xor %ebx, %ebx
        call tail                       // tail, then leaf below it
        call falls                      // falls, then landing below it
        jmp leaves                      // leaves jumps back into _start
back_here:
        call one                        // as a child of _start again
        mov $3, %r12d
1:      mov %r12d, %eax
        call dispatch
        dec %r12d
        jnz 1b
        call drops                      // never returns to here
        hlt
after_drops:
        lea one(%rip), %rax
        call through_return
        lea buffer(%rip), %rdi
        mov $100, %ecx
        rep stosb
        mov %ebx, %edi
        mov $60, %eax
        syscall
        .size _start, .-_start
        function tail
        inc %ebx
        jmp leaf
        .size tail, .-tail
        function leaf
        add $2, %ebx
        ret
        .size leaf, .-leaf
        function falls
        add $3, %ebx
        .size falls, .-falls
        function landing
        add $4, %ebx
        ret
        .size landing, .-landing
        function leaves
        add $5, %ebx
        call leaf
        jmp back_here
        .size leaves, .-leaves
        function one
        inc %ebx
        ret
        .size one, .-one
        function two
        add $2, %ebx
        ret
        .size two, .-two
        function three
        add $3, %ebx
        call one
        ret
        .size three, .-three
        function dispatch
        jmp *table-8(,%rax,8)
        .size dispatch, .-dispatch
        function drops
        add $8, %ebx
        pop %rax
        jmp after_drops
        .size drops, .-drops
        function through_return
        push %rax
        ret
        .size through_return, .-through_return
        .data
table:  .quad one, two, three
        .bss
buffer: .skip 100
        .section .note.GNU-stack,"",@progbits
