// Ten turns of a loop and two branches behind it, at the addresses that figure 4.31 of the
// mTrace thesis has (the program of figure 4.30).
// build: cc -nostdlib -static -no-pie -Wl,-Ttext=0x400000,--build-id=none
// run: exit 0
// run: oracle
        .intel_syntax noprefix
        .text
        .org 0x471
        .globl _start
_start: mov rbp, rsp
        sub rsp, 16
        mov dword ptr [rbp-4], 0
        jmp 2f
1:      mov eax, dword ptr [rbp-4]      // 400481
        mov dword ptr [rbp-8], eax
        add dword ptr [rbp-4], 1
2:      cmp dword ptr [rbp-4], 9
        jbe 1b                          // 40048f
        jbe 1b
        jbe 1b
        mov eax, 60
        xor edi, edi
        syscall
        .section .note.GNU-stack,"",@progbits
