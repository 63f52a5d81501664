// Calls through a table of more functions than a trace has numbers of two bytes for, before and
// after code is laid out anew (docs/design/0029): the program sleeps for longer than that
// takes. It forks before and after that.
// build: cc -nostdlib -static -no-pie
// run: oracle
// run: no-blocks its paths have a hundred thousand blocks
        .set TARGETS, 16700
        .set EARLY, 200
        .text
        .globl _start
        .type _start, @function
_start:
        xor %ebx, %ebx
        xor %edi, %edi
        mov $EARLY, %esi
        call some                       // before: the first ones...
        mov $TARGETS - EARLY, %edi
        mov $TARGETS, %esi
        call some                       // ...and the last ones
        mov $1000, %ebp
        call in_a_child                 // who lays out its own code
        call sleep
        mov $EARLY, %edi
        mov $EARLY + 50, %esi
        call some                       // new ones: code is laid out anew
        xor %edi, %edi
        mov $40, %esi
        call some                       // these have a second number now
        call all
        call all
        mov $2000, %ebp
        call in_a_child                 // who has this one's
        call say
        xor %edi, %edi
        jmp exit
        .size _start, .-_start

        // A child that sleeps, calls functions from number ebp on twice and says what it made.
        .type in_a_child, @function
in_a_child:
        mov $57, %eax                   // fork
        syscall
        test %eax, %eax
        jz 1f
        mov %eax, %edi
        xor %esi, %esi
        xor %edx, %edx
        xor %r10d, %r10d
        mov $61, %eax                   // wait4
        syscall
        ret
1:      lea (%rbp), %edi
        lea 100(%rbp), %esi
        call some                       // its clock begins
        call sleep
        mov $2, %r15d
2:      lea 50(%rbp), %edi
        lea 400(%rbp), %esi
        call some
        dec %r15d
        jnz 2b
        call say
        mov $7, %edi
        jmp exit
        .size in_a_child, .-in_a_child

        .type all, @function
all:    xor %edi, %edi
        mov $TARGETS, %esi
        jmp some
        .size all, .-all

        // Calls functions from number edi up to number esi.
        .type some, @function
some:   lea table(,%rdi,8), %r12
        lea table(,%rsi,8), %r13
1:      call *(%r12)
        add $8, %r12
        cmp %r13, %r12
        jb 1b
        ret
        .size some, .-some

        .type sleep, @function
sleep:  lea nap(%rip), %rdi
        xor %esi, %esi
        mov $35, %eax                   // nanosleep
        syscall
        ret
        .size sleep, .-sleep

        // Writes ebx as a line.
        .type say, @function
say:    lea line(%rip), %rsi
        mov $8, %ecx
        mov %ebx, %edx
1:      rol $4, %edx
        mov %edx, %eax
        and $15, %eax
        add $'a', %eax
        mov %al, (%rsi)
        inc %rsi
        dec %ecx
        jnz 1b
        lea line(%rip), %rsi
        mov $9, %edx
        mov $1, %edi
        mov $1, %eax                    // write
        syscall
        ret
        .size say, .-say

exit:   mov $231, %eax                  // exit_group
        syscall
        hlt

        // Each of them counts differently.
        .balign 16
functions:
        .set number, 0
        .rept TARGETS
        lea number(%rbx,%rbx,4), %ebx
        ret
        .balign 16
        .set number, number + 1
        .endr

        .data
nap:    .quad 0, 300000000
line:   .ascii "........\n"
        .balign 8
table:
        .set number, 0
        .rept TARGETS
        .quad functions + 16 * number
        .set number, number + 1
        .endr
        .section .note.GNU-stack, "", @progbits
