// Runs a few instructions at a fixed address with known registers and prints how they
// ended: at their end, or by a signal, with its details and what has changed.
//
// Instructions lie at CODE, the stack pointer is STACK, registers hold PATTERN(number).
// What is there when they end is printed as differences to that, so a line is the same
// wherever the C library is. A program calls snippets() once and then run(name, bytes...).
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define CODE 0x30000000ul
#define STACK 0x30100800ul
#define PATTERN(n) (0x30200000ul + 0x1010 * (n))

uint64_t snippet_in[16], snippet_out[16], snippet_sp;
extern char snippet_done[];
void snippet_run(void);
asm(".text\n.globl snippet_run, snippet_done\nsnippet_run:\n"
    " push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
    " mov %rsp, snippet_sp(%rip)\n xor %eax, %eax\n"
    ".macro snippet_registers code\n.set number, 0\n"
    ".irp r,rax,rcx,rdx,rbx,rsp,rbp,rsi,rdi,r8,r9,r10,r11,r12,r13,r14,r15\n"
    " \\code %\\r\n.set number, number+1\n.endr\n.endm\n"
    ".macro snippet_load r\n mov snippet_in+8*number(%rip), \\r\n.endm\n"
    ".macro snippet_store r\n mov \\r, snippet_out+8*number(%rip)\n.endm\n"
    " snippet_registers snippet_load\n jmp *snippet_start(%rip)\n"
    "snippet_done:\n snippet_registers snippet_store\n mov snippet_sp(%rip), %rsp\n cld\n"
    " pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n ret\n"
    ".data\nsnippet_start: .quad 0x30000000\n.text\n");

static char snippet_line[256];
static int snippet_is_over, snippet_traps;
// The kernel leaves the thread's last error code and trap number in signals of its own.
static int snippet_hides_trap;

// An address as distance from what is near.
static void snippet_address(const char *name, uint64_t at) {
    char *end = snippet_line + strlen(snippet_line);
    size_t left = snippet_line + sizeof snippet_line - end;
    if (at - CODE < 4096) snprintf(end, left, " %s=code+%ld", name, at - CODE);
    else if (at - STACK + 256 < 512) snprintf(end, left, " %s=stack%+ld", name, (long)(at - STACK));
    else snprintf(end, left, " %s=%lx", name, at);
}

// SIGTRAP of the trap flag goes on, up to forty times, and is shown with its address.
static void snippet_handler(int sig, siginfo_t *info, void *context) {
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (sig == SIGTRAP && info->si_code == TRAP_TRACE && g[REG_TRAPNO] == 1 && snippet_traps++ < 40) {
        if ((uint64_t)g[REG_RIP] - CODE < 4096) return snippet_address("trap", g[REG_RIP]);
        g[REG_EFL] &= ~0x100;
        return;
    }
    static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    for (int i = 0; i < 16; i++) snippet_out[i] = g[order[i]];
    snprintf(snippet_line + strlen(snippet_line), 99, " signal %d code %d", sig, info->si_code);
    if (!snippet_hides_trap) snprintf(snippet_line + strlen(snippet_line), 99, " err %lld trap %lld",
                                      (long long)g[REG_ERR], (long long)g[REG_TRAPNO]);
    snippet_address("address", (uint64_t)info->si_addr);
    snippet_address("rip", g[REG_RIP]);
    snippet_is_over = 1;
    g[REG_RIP] = (greg_t)snippet_done;
    g[REG_EFL] &= ~0x100;
}

static void snippets(void) {
    static char alternate[65536];
    sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = sizeof alternate}, 0);
    struct sigaction action = {.sa_sigaction = snippet_handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    for (int i = 0; i < 5; i++) sigaction(signals[i], &action, 0);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    mmap((void *)CODE, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    mmap((void *)(STACK & ~4095), 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    mmap((void *)PATTERN(0), 65536 + 8192, PROT_READ | PROT_WRITE, flags, -1, 0);
    for (int i = 0; i < 16; i++) snippet_in[i] = i == 4 ? STACK : PATTERN(i);
}

// Bytes on the stack around the pointer, before and after.
static uint64_t snippet_stack[64];

static void snippet(const char *name, const void *bytes, size_t count) {
    char *code = (char *)CODE;
    mprotect(code, 4096, PROT_READ | PROT_WRITE);
    memset(code, 0x90, 4096);
    memcpy(code, bytes, count);
    // jmp *done
    memcpy(code + count, "\xff\x25\0\0\0\0", 6), memcpy(code + count + 6, &(char *){snippet_done}, 8);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    memset(snippet_line, 0, sizeof snippet_line);
    memcpy((void *)(STACK - 256), snippet_stack, sizeof snippet_stack);
    snippet_is_over = snippet_traps = 0;
    snippet_run();
    if (!snippet_is_over) strcat(snippet_line, " done");
    for (int i = 0; i < 16; i++) if (snippet_out[i] != snippet_in[i]) {
        char number[8];
        snprintf(number, sizeof number, i == 4 ? "rsp" : "r%d", i);
        snippet_address(number, snippet_out[i]);
    }
    const unsigned char *now = (void *)(STACK - 256), *before = (void *)snippet_stack;
    for (unsigned i = 0; i < sizeof snippet_stack; i++)
        if (now[i] != before[i]) snprintf(snippet_line + strlen(snippet_line), 20, " [%+d]=%02x", (int)i - 256, now[i]);
    printf("%s:%s\n", name, snippet_line);
}
#define SNIPPET(name, ...) do { static const unsigned char bytes[] = {__VA_ARGS__}; snippet(name, bytes, sizeof bytes); } while (0)
