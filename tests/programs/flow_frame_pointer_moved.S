// The frame pointer is another than the one that a function was called with, and the stack
// pointer is made of it: setjmp in a helper that has returned, a longjmp there out of
// nested calls and out of a handler of a signal, a coroutine that is gone to by leave, a callee
// that leaves another frame pointer to its caller, and calls by push and ret.
// build: cc -nostdlib -static -no-pie
// run: exit 39
// run: oracle
// run: no-counts contexts of basic blocks begin their history anew elsewhere where a function that has returned is jumped into
        .globl _start
        .type _start, @function
_start: xor %ebp, %ebp
        xor %r14d, %r14d
        lea action(%rip), %rsi
        mov $10, %edi
        xor %edx, %edx
        mov $8, %r10d
        mov $13, %eax
        syscall
        call main
        mov %r14d, %edi
        mov $60, %eax
        syscall
        .size _start, .-_start

        .type main, @function
main:   push %rbp
        mov %rsp, %rbp
        push %r12
        push %r13
        mov $3, %r12d
1:      call helper
        test %eax, %eax
        jnz 2f
        call outer
2:      call leaf
        dec %r12d
        jnz 1b
        mov $3, %r12d
3:      call helper
        test %eax, %eax
        jnz 4f
        call signals
4:      call leaf
        dec %r12d
        jnz 3b
        mov $3, %r12d
5:      call resume
        call leaf
        call careless
        call pushes
        dec %r12d
        jnz 5b
        lea -16(%rbp), %rsp
        pop %r13
        pop %r12
        leave
        ret
        .size main, .-main

        .type leaf, @function
leaf:   inc %r14d
        ret
        .size leaf, .-leaf

// Its frame is lower than that of outer, which is called where it was.
        .type helper, @function
helper: push %rbp
        mov %rsp, %rbp
        sub $512, %rsp
        lea place(%rip), %rdi
        call save
        mov %eax, -504(%rbp)
        call leaf
        mov -504(%rbp), %eax
        mov kept(%rip), %rcx
        test %eax, %eax
        jz 1f
        mov %rcx, 8(%rbp)
1:      mov 8(%rbp), %rcx
        mov %rcx, kept(%rip)
        leave
        ret
        .size helper, .-helper

        .type outer, @function
outer:  push %rbp
        mov %rsp, %rbp
        sub $1024, %rsp
        mov $4, %ebx
        call deep
        hlt
        .size outer, .-outer

        .type deep, @function
deep:   push %rbp
        mov %rsp, %rbp
        sub $160, %rsp
        dec %ebx
        jz 1f
        call deep
1:      call leaf
        lea place(%rip), %rdi
        mov $2, %esi
        call jump
        hlt
        .size deep, .-deep

        .type signals, @function
signals: push %rbp
        mov %rsp, %rbp
        sub $1024, %rsp
        mov $39, %eax
        syscall
        mov %eax, %edi
        mov $10, %esi
        mov $62, %eax
        syscall
        hlt
        .size signals, .-signals

        .type handler, @function
handler: push %rbp
        mov %rsp, %rbp
        call leaf
        lea place(%rip), %rdi
        mov $2, %esi
        call jump
        hlt
        .size handler, .-handler

        .type restorer, @function
restorer: mov $15, %eax
        syscall
        .size restorer, .-restorer

// As setjmp and longjmp of a C library.
        .type save, @function
save:   mov %rbp, 8(%rdi)
        lea 8(%rsp), %rdx
        mov %rdx, 16(%rdi)
        mov (%rsp), %rdx
        mov %rdx, 24(%rdi)
        xor %eax, %eax
        ret
        .size save, .-save

        .type jump, @function
jump:   mov 16(%rdi), %r8
        mov 8(%rdi), %r9
        mov 24(%rdi), %rdx
        mov %esi, %eax
        mov %r8, %rsp
        mov %r9, %rbp
        jmp *%rdx
        .size jump, .-jump

// Goes to another stack by leave, where the coroutine goes on.
        .type resume, @function
resume: push %rbp
        mov %rsp, back(%rip)
        mov there(%rip), %rbp
        leave
        ret
        .size resume, .-resume

        .type coroutine, @function
coroutine:
1:      call leaf
        call yield
        jmp 1b
        .size coroutine, .-coroutine

        .type yield, @function
yield:  push %rbp
        mov %rsp, there(%rip)
        mov back(%rip), %rbp
        leave
        ret
        .size yield, .-yield

// Its callee leaves it another frame pointer.
        .type careless, @function
careless:
        push %rbp
        push %rbx
        mov %rsp, %rbx
        sub $64, %rsp
        call moves
        lea 16(%rbp), %rsp
        call leaf
        mov %rbp, %rsp
        mov %rbx, %rbp
        mov %rbp, %rsp
        pop %rbx
        pop %rbp
        ret
        .size careless, .-careless

        .type moves, @function
moves:  lea 24(%rsp), %rbp
        ret
        .size moves, .-moves

        .type pushes, @function
pushes: push %rbp
        mov %rsp, %rbp
        lea 1f(%rip), %rax
        push %rax
        lea leaf(%rip), %rax
        push %rax
        ret
1:      leave
        jmp leaf
        .size pushes, .-pushes

        .data
        .align 8
action: .quad handler, 0x44000000, restorer, 0
there:  .quad top
        .bss
        .align 16
place:  .skip 64
kept:   .skip 8
back:   .skip 8
        .skip 4096
        .data
        .align 16
        .skip 1024
top:    .quad 0, coroutine, 0, 0
        .section .note.GNU-stack,"",@progbits
