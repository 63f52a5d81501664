// The smallest program: no libc, one system call, its status is passed on.
// build: cc -nostdlib -static
// run: exit 42
// run: oracle
        .globl _start
        .type _start, @function
_start: mov $60, %eax
        mov $42, %edi
        syscall
        .size _start, .-_start
        .section .note.GNU-stack,"",@progbits
