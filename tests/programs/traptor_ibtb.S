// A function called ten times by its address, at the addresses that figure 4.35 of the mTrace
// thesis has (the program of figure 4.34).
// build: cc -nostdlib -static -no-pie -Wl,-Ttext=0x400000,--build-id=none
// run: exit 0
// run: oracle
        .intel_syntax noprefix
        .text
        .org 0x474
        .type fpoint1, @function
fpoint1: push rbp
        mov rbp, rsp
        leave
        ret
        .size fpoint1, .-fpoint1
        .type main, @function
main:   push rbp
        mov rbp, rsp
        sub rsp, 16
        mov qword ptr [rbp-16], offset fpoint1
        mov dword ptr [rbp-4], 0
        jmp 2f
1:      mov rdx, qword ptr [rbp-16]
        mov eax, 0
        call rdx                        // 40049c
        add dword ptr [rbp-4], 1
2:      cmp dword ptr [rbp-4], 9
        jle 1b
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
