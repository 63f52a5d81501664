// Branches of all classes, at the addresses that figures 4.8 and 4.10 of the mTrace thesis have
// (parts of the programs of figures 4.7 and 4.9).
// build: cc -nostdlib -static -no-pie -Wl,-Ttext=0x400000,--build-id=none
// run: exit 0
// run: oracle
        .intel_syntax noprefix
        .text
        .org 0x3b8
        .type puts, @function
puts:   ret
        .size puts, .-puts
        .org 0x4c4
        .type main, @function
main:   push rbp
        mov rbp, rsp
        mov rax, 1
        cmp rax, 2
        .byte 0x0f, 0x87                // jnbe exit1, 4004d3
        .long exit1 - . - 4
        .byte 0x0f, 0x83                // jnb exit1
        .long exit1 - . - 4
        jmp part2
        .org 0x56b
part2:  mov rcx, 1
1:      loop 1b                         // 400572
        mov rcx, 1
1:      loope 1b
        mov rcx, 1
1:      loopne 1b
        .skip 9, 0x90
        jmp 1f                          // 40058f
        test rax, rax
1:      mov edi, 0
        call puts
exit1:  leave
        ret                             // 40059f
        .size main, .-main
        .globl _start
_start:
        push offset done
        jmp main
done:   mov eax, 60
        xor edi, edi
        syscall
        .section .note.GNU-stack,"",@progbits
