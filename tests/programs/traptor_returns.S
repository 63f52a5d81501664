// A function that calls itself five times, at the addresses that figure 4.33 of the mTrace
// thesis has (the program of figure 4.32). Nobody calls main, so its return is a surprise.
// build: cc -nostdlib -static -no-pie -Wl,-Ttext=0x400000,--build-id=none
// run: exit 0
// run: oracle
        .intel_syntax noprefix
        .text
        .org 0x474
        .type funct, @function
funct:  push rbp
        mov rbp, rsp
        sub rsp, 16
        mov dword ptr [rbp-4], edi
        cmp dword ptr [rbp-4], 0
        je 1f
        sub dword ptr [rbp-4], 1
        mov eax, dword ptr [rbp-4]
        mov edi, eax
        call funct
        jmp 2f                          // 400493
1:      nop
2:      leave
        ret
        .size funct, .-funct
        .type main, @function
main:   push rbp
        mov rbp, rsp
        mov edi, 5
        call funct
        leave                           // 4004a6
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
