// Executes every form of an instruction with a memory operand under each segment
// prefix and prints a hash of all that they left: registers, vector state, memory,
// and faults with their addresses. With a second argument it has a line for each prefix.
//
// The forms come from the file that the first argument names, one a line: bytes in
// hexadecimal without a segment prefix, and a name (`testkit/tests/segments.rs`
// makes it from the decoder's table). Three areas lie where an access without a
// base, with that of fs, and with that of gs goes to; each holds other bytes, so an
// access by a wrong base shows.
// build: cc -O1 -mfsgsbase -mxsave -fno-stack-protector -fcf-protection=none
// run: needs fsgsbase xsave
// run: timeout 120
// run: no-oracle it executes half a million instructions by their encodings
#define _GNU_SOURCE
#include <cpuid.h>
#include <immintrin.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { SIZE = 4096, SLOT = 64 };
#define FLAT 0x20000000ul
#define BY_FS 0x20100000ul
#define BY_GS 0x20200000ul
#define UNMAPPED 0x20800000ul

// What a variant puts before the form, and where gs points.
static const struct { const char *name, *prefixes; unsigned long gs; } variants[] = {
    {"none", "", BY_GS - FLAT},          {"es", "\x26", BY_GS - FLAT},
    {"cs", "\x2e", BY_GS - FLAT},        {"ss", "\x36", BY_GS - FLAT},
    {"ds", "\x3e", BY_GS - FLAT},        {"fs", "\x64", BY_GS - FLAT},
    {"gs", "\x65", BY_GS - FLAT},        {"gs cs", "\x65\x2e", BY_GS - FLAT},
    {"cs gs", "\x2e\x65", BY_GS - FLAT}, {"fs gs", "\x64\x65", BY_GS - FLAT},
    {"gs fs", "\x65\x64", BY_GS - FLAT}, {"a32 gs", "\x67\x65", BY_GS - FLAT},
    {"gs a32", "\x65\x67", BY_GS - FLAT},
    {"gs unmapped", "\x65", UNMAPPED - FLAT},
    {"gs not canonical", "\x65", 0x7ffff0000000},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

uint64_t registers_in[16], registers_out[16], flags_out;
uint64_t host_sp, host_fs, form_fs, form_gs, form_code, state_mask;
unsigned char state_in[16384] __attribute__((aligned(64)));
unsigned char state_out[16384] __attribute__((aligned(64)));
extern char form_done[];
void run_form(void);
asm(".text\n.globl run_form, form_done\nrun_form:\n"
    " push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
    " mov %rsp, host_sp(%rip)\n rdfsbase %rax\n mov %rax, host_fs(%rip)\n"
    " mov state_mask(%rip), %eax\n xor %edx, %edx\n xrstor64 state_in(%rip)\n"
    " mov form_gs(%rip), %rax\n wrgsbase %rax\n mov form_fs(%rip), %rax\n wrfsbase %rax\n"
    " xor %eax, %eax\n cld\n"
    ".irp r,rax,rcx,rdx,rbx,rsp,rbp,rsi,rdi,r8,r9,r10,r11,r12,r13,r14,r15\n"
    " mov registers_in+8*number_\\r(%rip), %\\r\n.endr\n"
    " jmp *form_code(%rip)\n"
    "form_done:\n"
    ".irp r,rax,rcx,rdx,rbx,rsp,rbp,rsi,rdi,r8,r9,r10,r11,r12,r13,r14,r15\n"
    " mov %\\r, registers_out+8*number_\\r(%rip)\n.endr\n"
    " mov host_sp(%rip), %rsp\n pushfq\n pop flags_out(%rip)\n cld\n"
    " mov host_fs(%rip), %rax\n wrfsbase %rax\n"
    " mov state_mask(%rip), %eax\n xor %edx, %edx\n xsave64 state_out(%rip)\n xrstor64 state_in(%rip)\n"
    " pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n ret\n"
    ".set number_rax,0\n.set number_rcx,1\n.set number_rdx,2\n.set number_rbx,3\n.set number_rsp,4\n"
    ".set number_rbp,5\n.set number_rsi,6\n.set number_rdi,7\n.set number_r8,8\n.set number_r9,9\n"
    ".set number_r10,10\n.set number_r11,11\n.set number_r12,12\n.set number_r13,13\n"
    ".set number_r14,14\n.set number_r15,15\n");

static struct { uint64_t signal, code, address, at, error, trap; } fault;

// Runs with the form's fs base, so it must not touch thread-local storage.
static void handler(int sig, siginfo_t *info, void *context) {
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    fault.signal = sig, fault.code = info->si_code, fault.address = (uint64_t)info->si_addr;
    // An address in the code depends on where that is.
    if (fault.address - form_code < SLOT) fault.address -= form_code;
    fault.at = g[REG_RIP] - form_code, fault.error = g[REG_ERR], fault.trap = g[REG_TRAPNO];
    g[REG_RIP] = (greg_t)form_done;
    g[REG_EFL] &= ~0x100;
}

static uint64_t hash(uint64_t h, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word;
        memcpy(&word, (const char *)from + i, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15;
        h ^= h >> 29;
    }
    return h;
}

static uint64_t seed = 1;
static uint64_t chance(void) { return seed = seed * 6364136223846793005 + 1442695040888963407, seed >> 11; }

// Offset in the state of a component, 0 if this machine has none.
static unsigned component(unsigned number) {
    unsigned size, at, c, d;
    __cpuid_count(0xd, number, size, at, c, d);
    return state_mask >> number & 1 ? at : 0;
}

// Bytes of a vector register: small indices in 1, ones in 2.
static void fill(unsigned char *at, unsigned number, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        at[i] = number == 1 ? (i % 8 ? 0 : 8 * (i / 8 + 1)) : number == 2 ? 0xff : chance();
}

static void prepare(void) {
    state_mask = _xgetbv(0) & 0xe7;
    memcpy(state_in + 512, &state_mask, 8);
    state_in[0] = 0x7f, state_in[1] = 3;
    memcpy(state_in + 24, &(uint32_t){0x1f80}, 4);
    for (int i = 0; i < 16; i++) {
        fill(state_in + 160 + 16 * i, i, 16);
        if (component(2)) fill(state_in + component(2) + 16 * i, i, 16);
        if (component(6)) fill(state_in + component(6) + 32 * i, i, 32);
        if (component(7)) fill(state_in + component(7) + 64 * i, 16 + i, 64);
        if (component(5) && i < 8) memcpy(state_in + component(5) + 8 * i, &(uint64_t){0x5a5a5a5a00ff6996}, 8);
        registers_in[i] = FLAT + 0x400 + 64 * (i & 7);
    }
    // Counts of repeated instructions and of shifts; the stack.
    registers_in[1] = 3, registers_in[4] = FLAT + 0xf00;
}

static unsigned char images[3][SIZE];
static void *const areas[3] = {(void *)FLAT, (void *)BY_FS, (void *)BY_GS};

static uint64_t run(const char *code, unsigned variant) {
    for (int i = 0; i < 3; i++) memcpy(areas[i], images[i], SIZE);
    memset(&fault, 0, sizeof fault);
    memset(state_out, 0, sizeof state_out);
    form_code = (uint64_t)code, form_fs = BY_FS - FLAT, form_gs = variants[variant].gs;
    run_form();
    uint64_t h = hash(1, &fault, sizeof fault);
    h = hash(h, registers_out, sizeof registers_out);
    h = hash(h, &flags_out, 8);
    // Without the addresses of the last x87 instruction and the header.
    h = hash(h, state_out, 8), h = hash(h, state_out + 24, 512 - 24), h = hash(h, state_out + 576, 4096);
    for (int i = 0; i < 3; i++) h = hash(h, areas[i], SIZE);
    return h;
}

int main(int count, char **arguments) {
    FILE *file = count > 1 ? fopen(arguments[1], "r") : 0;
    if (!file) return 1;
    for (int i = 0; i < 3; i++) {
        for (int at = 0; at < SIZE; at++) images[i][at] = chance();
        if (mmap(areas[i], SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) return 2;
    }
    prepare();
    static char alternate[65536];
    sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = sizeof alternate}, 0);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    for (int i = 0; i < 5; i++) sigaction(signals[i], &action, 0);
    static char lines[8192][96];
    int forms = 0;
    while (forms < 8192 && fgets(lines[forms], sizeof lines[0], file)) forms++;
    size_t bytes = (size_t)forms * VARIANTS * SLOT;
    char *code = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED) return 3;
    for (int f = 0; f < forms; f++) for (int v = 0; v < VARIANTS; v++) {
        char *at = code + (f * VARIANTS + v) * SLOT, *hex = lines[f];
        for (const char *p = variants[v].prefixes; *p; p++) *at++ = *p;
        for (; *hex && *hex != ' '; hex += 2) *at++ = strtol((char[]){hex[0], hex[1], 0}, 0, 16);
        memcpy(at, "\xff\x25\0\0\0\0", 6), memcpy(at + 6, &(char *){form_done}, 8);
        if (!v) lines[f][strcspn(lines[f], "\n")] = 0;
    }
    mprotect(code, bytes, PROT_READ | PROT_EXEC);
    for (int f = 0; f < forms; f++) {
        uint64_t all = 1;
        printf("%s:", strchr(lines[f], ' '));
        for (int v = 0; v < VARIANTS; v++) {
            uint64_t h = run(code + (f * VARIANTS + v) * SLOT, v);
            all = hash(all, &h, 8);
            if (count > 2) printf("\n  %s: %016lx signal %lu code %ld", variants[v].name, h, fault.signal, fault.code);
        }
        printf(" %016lx\n", all);
    }
    return 0;
}
