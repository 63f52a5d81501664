// Functions that jump to their own first instruction: as a tail call of themselves, as the
// end of a loop in a function that calls nothing, and one that another function jumps to.
// Each is one activation, unless --count-self-jumps says that each jump is one, too.
// build: cc -nostdlib -static -no-pie
// run: exit 33
// run: oracle
        .globl _start
        .type _start, @function
_start: xor %r14d, %r14d
        mov $3, %r12d
1:      mov $5, %edi
        call down
        mov $4, %edi
        call tail
        mov $2, %edi
        call other
        dec %r12d
        jnz 1b
        mov %r14d, %edi
        mov $60, %eax
        syscall
        .size _start, .-_start

        .type leaf, @function
leaf:   inc %r14d
        ret
        .size leaf, .-leaf

// Entered 5 times, called once.
        .type down, @function
down:   inc %r14d
        dec %edi
        jnz down
        ret
        .size down, .-down

// Entered 4 times, called once.
        .type tail, @function
tail:   push %rbx
        call leaf
        pop %rbx
        dec %edi
        jz 1f
        jmp tail
1:      ret
        .size tail, .-tail

// Entered once each time that it is called: by a jump of another function.
        .type other, @function
other:  inc %r14d
        dec %edi
        jz 1f
        jmp leaf
1:      ret
        .size other, .-other
        .section .note.GNU-stack,"",@progbits
