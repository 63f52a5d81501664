// Taken branches, a loop and an indirect call, at the addresses that figure 4.12 of the mTrace
// thesis has (the program of figure 4.11).
// build: cc -nostdlib -static -no-pie -Wl,-Ttext=0x400000,--build-id=none
// run: exit 0
// run: oracle
// run: no-counts the oracle takes a branch that goes to the next instruction for one that fell through
        .intel_syntax noprefix
        .text
        .org 0x3b8
        .type puts, @function
puts:   ret
        .size puts, .-puts
        .org 0x4c4
        .type test, @function
test:   ret
        .size test, .-test
        .org 0x4dd
        .type main, @function
main:   push rbp
        mov rbp, rsp
        mov rax, 2
        cmp rax, 1
        jnbe 1f                         // 4004ec
        test rax, rax
1:      cmp rax, 2
        jz 2f
2:      mov rcx, 5
3:      loop 3b
        mov edi, 0
        call puts
        mov rax, offset test
        call rax                        // 400511
        leave
        ret
        .size main, .-main
        .globl _start
_start:
        push offset done
        jmp main
done:   mov eax, 60
        xor edi, edi
        syscall
        .section .note.GNU-stack,"",@progbits
