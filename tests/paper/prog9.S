// Functions that are entered and left by jumps; written anew after listing
// 5.26 of paper 000, in GNU assembly for the 64-bit calling convention.
// main jumps to foo, foo jumps to real_foo, real_foo jumps back into main.
// build: cc -g -no-pie
        .section .rodata
in_main:        .string "in main\n"
in_real_foo:    .string "in real_foo\n"
in_foo:         .string "in foo\n"

        .text
        .globl  main, foo, real_foo, bar
        .type   real_foo, @function
real_foo:
        lea     in_real_foo(%rip), %rdi
        xor     %eax, %eax              // no vector arguments
        call    printf@PLT
        jmp     after_foo               // back into the middle of main
        .size   real_foo, .-real_foo

        .type   foo, @function
foo:
        lea     in_foo(%rip), %rdi
        xor     %eax, %eax
        call    printf@PLT
        jmp     real_foo                // forward: a call without return address
        .size   foo, .-foo

        .type   bar, @function
bar:
        push    %rbp
        mov     %rsp, %rbp
        leave
        ret
        .size   bar, .-bar

        .type   main, @function
main:
        push    %rbp
        mov     %rsp, %rbp
        jmp     foo
after_foo:
        lea     in_main(%rip), %rdi
        xor     %eax, %eax
        call    printf@PLT
        call    bar
        xor     %eax, %eax
        leave
        ret
        .size   main, .-main
        .section .note.GNU-stack,"",@progbits
