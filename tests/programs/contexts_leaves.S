// Functions that call nothing, entered in every way: by call, tail call, jumps
// and calls into their middle, a return used as a jump; before and after they
// were first called as they should be, and with other calls after each.
// build: cc -nostdlib -static -no-pie
// run: exit 156
// run: oracle
        .macro function name
        .globl \name
        .type \name, @function
\name:
        .endm
        .macro leaf name
        function \name
        test %ebx, %ebx
        js 1f
        inc %ebx
\name\()_middle:
        inc %ebx
1:      ret
        .size \name, .-\name
        .endm
        .text
        function _start
        xor %ebx, %ebx
        mov $3, %r12d
again:  call plain                      // an ordinary leaf, and with a frame
        call framed
        call tails                      // tails, then plain in its place
        call node                       // has the right caller after all these
        call jumps                      // into the middle of a: first, or later
        call node
        call a
        call node
        call b                          // the other way round
        call jumps_back
        call node
        call b
        call node
        call c_middle                   // a call into the middle
        call node
        call c
        call node
        lea d_middle(%rip), %rax
        call jumps_by_register
        call node
        call d
        lea e_middle(%rip), %rax
        call returns_into
        call node
        call e
        call node
        call pushes                     // no leaf: its return goes elsewhere
        call node
        call conditional                // a conditional jump into the middle
        call node
        call f
        call node
        dec %r12d
        jnz again
        mov %ebx, %edi
        mov $60, %eax
        syscall
        .size _start, .-_start
        function node                   // no leaf: below it is one
        call plain
        ret
        .size node, .-node
        function framed
        push %rbp
        mov %rsp, %rbp
        sub $32, %rsp
        mov %ebx, 8(%rsp)
        add $32, %rsp
        pop %rbp
        ret
        .size framed, .-framed
        function tails
        jmp plain
        .size tails, .-tails
        function jumps
        jmp a_middle
        .size jumps, .-jumps
        function jumps_back
        nop
        jmp b_middle
        .size jumps_back, .-jumps_back
        function jumps_by_register
        jmp *%rax
        .size jumps_by_register, .-jumps_by_register
        function returns_into
        push %rax
        ret
        .size returns_into, .-returns_into
        function pushes
        lea plain(%rip), %rax
        push %rax
        ret
        .size pushes, .-pushes
        function conditional
        test %ebx, %ebx
        jns f_middle
        ret
        .size conditional, .-conditional
        leaf plain
        leaf a
        leaf b
        leaf c
        leaf d
        leaf e
        leaf f
        .section .note.GNU-stack,"",@progbits
