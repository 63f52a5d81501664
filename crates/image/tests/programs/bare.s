# Hand-written assembly: one typed function, two global labels without a
# type, a local label that is no function, a label inside a sized function.
        .text
        .globl  _start
_start:
        call    untyped
        call    typed
        call    global_tail
        mov     $60, %eax
        xor     %edi, %edi
        syscall

        .globl  untyped
untyped:
        mov     $1, %eax
local_label:
        ret

        .globl  typed
        .type   typed, @function
typed:
        mov     $2, %eax
        .globl  inside_typed
inside_typed:
        ret
        .size   typed, . - typed

        .globl  global_tail
global_tail:
        mov     $3, %eax
        ret
        .section .note.GNU-stack,"",@progbits
