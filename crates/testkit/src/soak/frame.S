// What every random program of the soak shares: start, threads, digest, signal
// handlers, end. No C library is needed; the parameters (THREADS, ROUNDS,
// VECTORS, STORM, FAULTS, ENTRY) are defined before this text, and
// the random functions f0, f1... and their data follow it.
//
// Registers: r15 is the thread's arena, always. r13 and rsp hold addresses and
// are digested nowhere; everything else is.
//
// Arena, one per thread:
//   0x00000  slots: code page, digest, rounds left, depth, thread, zero, bad address
//   0x00100  work area, 4 KiB and a little more: digested
//   0x04000  second stack, grows down from 0x0c000
//   0x0c000  alternate signal stack, up to 0x14000
//   0x18000  stack of a thread other than the first, grows down from 0x28000
//   0x2f000  last page, 0x30000: a page that may not be touched
        .intel_syntax noprefix
#define SLOT_CODE 0x00
#define SLOT_DIGEST 0x08
#define SLOT_ROUNDS 0x10
#define SLOT_DEPTH 0x18
#define SLOT_THREAD 0x20
#define SLOT_ZERO 0x28
#define SLOT_BAD 0x30
#define SLOT_STACK 0x38
#define WORK 0x100
#define WORK_SIZE 0x1080
#define STACK_TWO 0xc000
#define ALTERNATE 0xc000
#define ALTERNATE_SIZE 0x8000
#define THREAD_STACK 0x28000
#define GUARD 0x30000
#define ARENA_SIZE 0x31000
#define CODE_SIZE 0x4000
#define PROGRAM_FLAGS 0xcd5
#define CHECKPOINTS 8

// One 64-bit word in rax goes into the digest in rdx.
        .macro fold
        xor rdx, rax
        imul rdx, r8
        ror rdx, 23
        .endm

        .macro call_kernel number
        mov eax, \number
        syscall
        .endm

// Sets the protection of the code page; keeps everything.
        .macro protect rights
        push rax
        push rcx
        push rdx
        push rsi
        push rdi
        push r11
        mov rdi, [r15 + SLOT_CODE]
        mov esi, CODE_SIZE
        mov edx, \rights
        call_kernel 10
        pop r11
        pop rdi
        pop rsi
        pop rdx
        pop rcx
        pop rax
        .endm

// The signal in edi gets a handler.
        .macro handle action, handler
        lea rsi, [rip + \action]
        xor edx, edx
        mov r10d, 8
        lea rax, [rip + \handler]
        mov [rsi], rax
        lea rax, [rip + restorer]
        mov [rsi + 16], rax
        call_kernel 13
        .endm

        .bss
        .balign 64
results: .skip 8 * (CHECKPOINTS + 1) * THREADS
ids:    .skip 4 * THREADS
arenas: .skip 8 * THREADS
ticks:  .skip 8
shared: .skip 64
scratch: .skip 0x200
line:   .skip 64
        .text
        .globl ENTRY
ENTRY:  and rsp, -16
        xor ebp, ebp
        cld
#if STORM
        mov edi, 14
        handle alarm_action, on_alarm
#endif
#if FAULTS
        mov ebx, 4
1:      lea rax, [rip + fault_signals]
        movzx edi, byte ptr [rax + rbx]
        handle fault_action, on_fault
        dec ebx
        jns 1b
#endif
// Arenas first: nothing here depends on the order of threads.
        xor ebx, ebx
1:      xor edi, edi
        mov esi, ARENA_SIZE
        mov edx, 3
        mov r10d, 0x22
        mov r8, -1
        xor r9d, r9d
        call_kernel 9
        lea rcx, [rip + arenas]
        mov [rcx + rbx * 8], rax
        mov r15, rax
        mov [r15 + SLOT_THREAD], rbx
        mov qword ptr [r15 + SLOT_BAD], 0x10
        lea rdi, [rax + GUARD]
        mov esi, 0x1000
        xor edx, edx
        call_kernel 10
        xor edi, edi
        mov esi, CODE_SIZE
        mov edx, 7
        mov r10d, 0x22
        mov r8, -1
        xor r9d, r9d
        call_kernel 9
        mov [r15 + SLOT_CODE], rax
        inc ebx
        cmp ebx, THREADS
        jb 1b
#if STORM
        call arm
#endif
        mov ebx, 1
2:      cmp ebx, THREADS
        jae 3f
        lea rcx, [rip + arenas]
        mov r15, [rcx + rbx * 8]
        lea rsi, [r15 + THREAD_STACK]
        lea rdx, [rip + ids]
        lea rdx, [rdx + rbx * 4]
        mov r10, rdx
        mov edi, 0x350f00
        xor r8d, r8d
        call_kernel 56
        test eax, eax
        jz thread
        inc ebx
        jmp 2b
3:      mov r15, [rip + arenas]
        call work
        mov ebx, 1
4:      cmp ebx, THREADS
        jae 6f
5:      lea rdi, [rip + ids]
        lea rdi, [rdi + rbx * 4]
        mov edx, [rdi]
        test edx, edx
        jz 7f
        xor esi, esi
        xor r10d, r10d
        call_kernel 202
        jmp 5b
7:      inc ebx
        jmp 4b
6:
#if STORM
        mov dword ptr [rip + ticks + 4], 1      // no further alarm
#endif
        xor ebx, ebx
8:      lea rax, [rip + results]
        mov rax, [rax + rbx * 8]
        call print
        inc ebx
        cmp ebx, (CHECKPOINTS + 1) * THREADS
        jb 8b
        mov rax, [rip + shared]
        call print
        xor edi, edi
        call_kernel 231

thread: call work
        xor edi, edi
        call_kernel 60

// Sixteen digits of rax and a line end.
print:  push rbx
        lea rsi, [rip + line]
        mov ecx, 16
1:      rol rax, 4
        mov edx, eax
        and edx, 15
        cmp edx, 10
        lea edi, [rdx + '0']
        lea edx, [rdx + 'a' - 10]
        cmovb edx, edi
        mov [rsi], dl
        inc rsi
        dec ecx
        jnz 1b
        mov byte ptr [rsi], 10
        lea rsi, [rip + line]
        mov edi, 1
        mov edx, 17
        call_kernel 1
        pop rbx
        ret

// A thread's whole work; r15 is its arena.
work:   push rbx
        push rbp
        xor edi, edi
        sub rsp, 24
        lea rax, [r15 + ALTERNATE]
        mov [rsp], rax
        mov qword ptr [rsp + 8], 0
        mov qword ptr [rsp + 16], ALTERNATE_SIZE
        mov rdi, rsp
        xor esi, esi
        call_kernel 131
        add rsp, 24
        mov dword ptr [r15 + SLOT_ROUNDS], ROUNDS
        mov [r15 + SLOT_STACK], rsp
        movabs rax, SEED
        mov rcx, [r15 + SLOT_THREAD]
        lea rcx, [rcx * 8 + 5]
        imul rax, rcx
        or rax, 1
        mov rdx, rax
        xor ecx, ecx
1:      imul rdx, rdx, 0x27bb2ee7
        ror rdx, 11
        add rdx, rax
        mov [r15 + rcx * 8 + WORK], rdx
        inc ecx
        cmp ecx, WORK_SIZE / 8
        jb 1b
#if VECTORS == 2
#define CLEAR_VECTOR(n) vpxord zmm##n, zmm##n, zmm##n;
        CLEAR_VECTOR(16) CLEAR_VECTOR(17) CLEAR_VECTOR(18) CLEAR_VECTOR(19)
        CLEAR_VECTOR(20) CLEAR_VECTOR(21) CLEAR_VECTOR(22) CLEAR_VECTOR(23)
        CLEAR_VECTOR(24) CLEAR_VECTOR(25) CLEAR_VECTOR(26) CLEAR_VECTOR(27)
        CLEAR_VECTOR(28) CLEAR_VECTOR(29) CLEAR_VECTOR(30) CLEAR_VECTOR(31)
#define CLEAR_MASK(n) kxorq k##n, k##n, k##n;
        CLEAR_MASK(0) CLEAR_MASK(1) CLEAR_MASK(2) CLEAR_MASK(3)
        CLEAR_MASK(4) CLEAR_MASK(5) CLEAR_MASK(6) CLEAR_MASK(7)
#endif
#if VECTORS
        vzeroall
#endif
#define LOAD_VECTOR(n) movups xmm##n, [r15 + WORK + 16 * n];
        LOAD_VECTOR(0) LOAD_VECTOR(1) LOAD_VECTOR(2) LOAD_VECTOR(3)
        LOAD_VECTOR(4) LOAD_VECTOR(5) LOAD_VECTOR(6) LOAD_VECTOR(7)
        LOAD_VECTOR(8) LOAD_VECTOR(9) LOAD_VECTOR(10) LOAD_VECTOR(11)
        LOAD_VECTOR(12) LOAD_VECTOR(13) LOAD_VECTOR(14) LOAD_VECTOR(15)
        fninit
        mov rax, [r15 + WORK + 0x80]
        mov rbx, [r15 + WORK + 0x88]
        mov rcx, [r15 + WORK + 0x90]
        mov rdx, [r15 + WORK + 0x98]
        mov rsi, [r15 + WORK + 0xa0]
        mov rdi, [r15 + WORK + 0xa8]
        mov rbp, [r15 + WORK + 0xb0]
        mov r8, [r15 + WORK + 0xb8]
        mov r9, [r15 + WORK + 0xc0]
        mov r10, [r15 + WORK + 0xc8]
        mov r11, [r15 + WORK + 0xd0]
        xor r12d, r12d
        xor r14d, r14d
        cmp r14d, r12d
2:      call f0
        call digest
        mov r13d, [r15 + SLOT_ROUNDS]
        lea r13d, [r13 - 1]
        mov [r15 + SLOT_ROUNDS], r13d
        xchg rcx, r13
        jrcxz 3f
        xchg rcx, r13
        jmp 2b
3:      call digest_work
        mov rsp, [r15 + SLOT_STACK]
        cld
        pop rbp
        pop rbx
        ret

// Registers, flags and vectors go into the digest; all of them are kept.
digest: pushfq
        cld
        push r14
        push r12
        push r11
        push r10
        push r9
        push r8
        push rbp
        push rdi
        push rsi
        push rbx
        push rdx
        push rcx
        push rax
        movabs r8, 0x9e3779b97f4a7c15
        mov rdx, [r15 + SLOT_DIGEST]
        mov eax, [rsp + 13 * 8]
        and eax, PROGRAM_FLAGS
        fold
        mov rsi, rsp
        mov ecx, 13
1:      mov rax, [rsi]
        fold
        add rsi, 8
        dec ecx
        jnz 1b
        mov rbp, rsp
        sub rsp, 2048 + 64 + 16
        and rsp, -64
        stmxcsr [rsp + 2048 + 64]
        mov eax, [rsp + 2048 + 64]
        fold
#if VECTORS == 0
#define VECTOR_WORDS 32
#define SAVE_VECTOR(n) movups [rsp + 16 * n], xmm##n;
#elif VECTORS == 1
#define VECTOR_WORDS 64
#define SAVE_VECTOR(n) vmovups [rsp + 32 * n], ymm##n;
#else
#define VECTOR_WORDS 264
#define SAVE_VECTOR(n) vmovups [rsp + 64 * n], zmm##n;
        kmovq [rsp + 2048], k0
        kmovq [rsp + 2056], k1
        kmovq [rsp + 2064], k2
        kmovq [rsp + 2072], k3
        kmovq [rsp + 2080], k4
        kmovq [rsp + 2088], k5
        kmovq [rsp + 2096], k6
        kmovq [rsp + 2104], k7
        SAVE_VECTOR(16) SAVE_VECTOR(17) SAVE_VECTOR(18) SAVE_VECTOR(19)
        SAVE_VECTOR(20) SAVE_VECTOR(21) SAVE_VECTOR(22) SAVE_VECTOR(23)
        SAVE_VECTOR(24) SAVE_VECTOR(25) SAVE_VECTOR(26) SAVE_VECTOR(27)
        SAVE_VECTOR(28) SAVE_VECTOR(29) SAVE_VECTOR(30) SAVE_VECTOR(31)
#endif
        SAVE_VECTOR(0) SAVE_VECTOR(1) SAVE_VECTOR(2) SAVE_VECTOR(3)
        SAVE_VECTOR(4) SAVE_VECTOR(5) SAVE_VECTOR(6) SAVE_VECTOR(7)
        SAVE_VECTOR(8) SAVE_VECTOR(9) SAVE_VECTOR(10) SAVE_VECTOR(11)
        SAVE_VECTOR(12) SAVE_VECTOR(13) SAVE_VECTOR(14) SAVE_VECTOR(15)
        mov rsi, rsp
        mov ecx, VECTOR_WORDS
2:      mov rax, [rsi]
        fold
        add rsi, 8
        dec ecx
        jnz 2b
        mov [r15 + SLOT_DIGEST], rdx
        // Keep it, if this is one of the first rounds.
        mov eax, ROUNDS
        sub eax, [r15 + SLOT_ROUNDS]
        cmp eax, CHECKPOINTS
        jae 3f
        imul ecx, [r15 + SLOT_THREAD], CHECKPOINTS + 1
        add ecx, eax
        lea rsi, [rip + results]
        mov [rsi + rcx * 8], rdx
3:      mov rsp, rbp
        pop rax
        pop rcx
        pop rdx
        pop rbx
        pop rsi
        pop rdi
        pop rbp
        pop r8
        pop r9
        pop r10
        pop r11
        pop r12
        pop r14
        popfq
        ret

// The work area goes into the digest, which is this thread's last result.
digest_work:
        movabs r8, 0x9e3779b97f4a7c15
        mov rdx, [r15 + SLOT_DIGEST]
        lea rsi, [r15 + WORK]
        mov ecx, WORK_SIZE / 8
1:      mov rax, [rsi]
        fold
        add rsi, 8
        dec ecx
        jnz 1b
        imul ecx, [r15 + SLOT_THREAD], CHECKPOINTS + 1
        lea rsi, [rip + results]
        mov [rsi + rcx * 8 + CHECKPOINTS * 8], rdx
        ret

#if STORM || FAULTS
restorer:
        call_kernel 15
// Offsets in ucontext of asm/ucontext.h and asm/sigcontext.h.
#define UC(n) [rdx + 40 + 8 * n]
#define UC_FPSTATE [rdx + 224]
        .data
        .balign 8
alarm_action: .quad 0, 0x1c000004, 0, 0
fault_action: .quad 0, 0x0c000004, 0, FAULT_MASK
fault_signals: .byte 4, 5, 7, 8, 11
        .text
#endif

#if STORM
// The next alarm, in twenty to four hundred microseconds; at most ALARMS of them.
arm:    mov eax, [rip + ticks]
        cmp eax, ALARMS
        jae 1f
        cmp dword ptr [rip + ticks + 4], 0
        jnz 1f
        imul eax, eax, 0x9e3779b1
        shr eax, 24
        lea eax, [rax + rax * 2 + 20]
        imul eax, eax, PACE
        sub rsp, 40
        mov qword ptr [rsp], 0
        mov qword ptr [rsp + 8], 0
        mov qword ptr [rsp + 16], 0
        mov [rsp + 24], rax
        xor edi, edi
        mov rsi, rsp
        xor edx, edx
        call_kernel 38
        add rsp, 40
1:      ret

// Every register and the extended state change; the saved ones are edited and put back.
on_alarm:
        lock inc dword ptr [rip + ticks]
        mov rax, UC(11)
        not qword ptr UC(11)
        mov rcx, UC(16)
        mov qword ptr UC(16), 0
        mov UC(16), rcx
        not qword ptr UC(11)
        cmp rax, UC(11)
        jne on_alarm
#define WIPE(n) pcmpeqd xmm##n, xmm##n;
        WIPE(0) WIPE(1) WIPE(2) WIPE(3) WIPE(4) WIPE(5) WIPE(6) WIPE(7)
        WIPE(8) WIPE(9) WIPE(10) WIPE(11) WIPE(12) WIPE(13) WIPE(14) WIPE(15)
#if VECTORS
#undef WIPE
#define WIPE(n) vpcmpeqd ymm##n, ymm##n, ymm##n;
        WIPE(0) WIPE(1) WIPE(2) WIPE(3) WIPE(7) WIPE(8) WIPE(12) WIPE(15)
#endif
#if VECTORS == 2
        vpternlogd zmm17, zmm17, zmm17, 0xff
        vpternlogd zmm31, zmm31, zmm31, 0xff
        kxnorq k1, k1, k1
        kxnorq k7, k7, k7
#endif
        fninit
        fldpi
        fld1
        mov rbx, -1
        mov rbp, -1
        mov r8, -1
        mov r9, -1
        mov r12, -1
        mov r13, -1
        mov r14, -1
        mov r15, -1
        call arm
        std
        stc
        cld
        ret
#endif

#if FAULTS
// The interrupted state goes into the digest, is changed, and goes on at r13.
on_fault:
        mov r15, UC(7)
        movabs r8, 0x9e3779b97f4a7c15
        mov ebx, [rsi + 8]
        mov r9, rdx
        mov rdx, [r15 + SLOT_DIGEST]
        mov eax, edi
        fold
        mov eax, ebx
        fold
// An address within the arena counts as its distance.
#define SAVED(n) mov rax, [r9 + 40 + 8 * n]; mov rcx, rax; sub rcx, r15; cmp rcx, ARENA_SIZE; cmovb rax, rcx; fold;
        SAVED(0) SAVED(1) SAVED(2) SAVED(3) SAVED(4) SAVED(6)
        SAVED(8) SAVED(9) SAVED(10) SAVED(11) SAVED(12) SAVED(13) SAVED(14)
        SAVED(19) SAVED(20)
        mov eax, [r9 + 40 + 8 * 17]
        and eax, PROGRAM_FLAGS
        fold
        mov rax, [r9 + 40 + 8 * 16]
        cmp rax, 0x1000
        jb 1f
        sub rax, [r9 + 40 + 8 * 5]
1:      fold
        mov rcx, [r9 + 224]
        mov rax, [rcx + 160]
        fold
        mov rax, [rcx + 160 + 248]
        fold
        mov [r15 + SLOT_DIGEST], rdx
        mov rdx, r9
        not qword ptr UC(11)
        add qword ptr UC(1), 77
        xor dword ptr UC(17), 0x41
        xor dword ptr [rcx + 164], 0x55
        mov rax, UC(5)
        mov UC(16), rax
#define WIPE_MORE(n) pcmpeqd xmm##n, xmm##n;
        WIPE_MORE(0) WIPE_MORE(1) WIPE_MORE(5) WIPE_MORE(9) WIPE_MORE(15)
        mov rbp, -1
        mov r12, -1
        mov r14, -1
        ret
#endif
