// A block that began pages away, behind a direct jump, changes the instruction
// right behind its own store: the new bytes count.
// build: cc -nostdlib -static -no-pie
// run: exit 210
// run: oracle
        .section .hot, "awx", @progbits
        .globl _start
_start: xor %ebx, %ebx
        mov $20, %ecx
1:      jmp far
        .balign 4096
        .skip 5 * 4096
far:    mov %ecx, 2f + 1(%rip)
2:      mov $0x1234, %eax
        add %eax, %ebx
        dec %ecx
        jnz 1b
        mov %ebx, %edi
        mov $60, %eax
        syscall
        .section .note.GNU-stack, "", @progbits
