// Executes instances of instructions and prints, a line for each, a hash of the state that it
// left: registers, flags, vector and x87 state, bases, memory, and the fault if there was one.
// With a second argument the line is followed by the state.
//
// The first argument names a file of `struct instance` (`testkit::instances` makes it). Each
// has its code at an address of its own, because operands can be relative to it, and one of two
// areas of memory: one within reach of a code cache below 2 GB and one that is not. The code
// ends with a jump to `instance_done`. Nothing else happens while the program's registers are
// the instance's, so the stack pointer can hold any value.
// build: cc -O1 -no-pie -mfsgsbase -mxsave -fno-stack-protector -fcf-protection=none
// run: needs fsgsbase xsave
// run: timeout 120
// run: no-oracle it executes a hundred thousand instructions by their encodings
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
#include <unistd.h>

// As testkit/src/instances.rs has them.
enum { AREA = 12288, CODE = 128, FS = 4096, GS = 8192, PAGE = 4096 };
static const uint64_t areas[2] = {0x67000000, 0x6a008d000000};

struct instance {
    uint64_t at, registers[16], flags, seed;
    uint32_t mxcsr;
    uint16_t fcw, length;
    unsigned char code[CODE];
};

// What `instance_run` loads and stores. The flags and bases follow the registers.
uint64_t registers_in[16], registers_out[16], flags_in, flags_out, fs_in, gs_in, fs_out, gs_out;
uint64_t host_sp, host_fs, instance_code, state_mask;
uint16_t selectors_out[4];
unsigned char state_in[16384] __attribute__((aligned(64)));
unsigned char state_out[16384] __attribute__((aligned(64)));
extern char instance_done[];
void instance_run(void);
asm(".text\n.globl instance_run, instance_done\ninstance_run:\n"
    " push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
    " mov %rsp, host_sp(%rip)\n rdfsbase %rax\n mov %rax, host_fs(%rip)\n"
    " mov state_mask(%rip), %eax\n xor %edx, %edx\n xrstor64 state_in(%rip)\n"
    " mov gs_in(%rip), %rax\n wrgsbase %rax\n mov fs_in(%rip), %rax\n wrfsbase %rax\n"
    " push flags_in(%rip)\n popfq\n"
    ".irp r,rax,rcx,rdx,rbx,rsp,rbp,rsi,rdi,r8,r9,r10,r11,r12,r13,r14,r15\n"
    " mov registers_in+8*number_\\r(%rip), %\\r\n.endr\n"
    " jmp *instance_code(%rip)\n"
    "instance_done:\n"
    ".irp r,rax,rcx,rdx,rbx,rsp,rbp,rsi,rdi,r8,r9,r10,r11,r12,r13,r14,r15\n"
    " mov %\\r, registers_out+8*number_\\r(%rip)\n.endr\n"
    " mov host_sp(%rip), %rsp\n pushfq\n pop flags_out(%rip)\n push $2\n popfq\n"
    " rdfsbase %rax\n mov %rax, fs_out(%rip)\n rdgsbase %rax\n mov %rax, gs_out(%rip)\n"
    " mov %ds, selectors_out(%rip)\n mov %es, selectors_out+2(%rip)\n"
    " mov %ss, selectors_out+4(%rip)\n mov %fs, selectors_out+6(%rip)\n"
    " xor %eax, %eax\n mov %eax, %ds\n mov %eax, %es\n mov %eax, %fs\n"
    " mov host_fs(%rip), %rax\n wrfsbase %rax\n"
    " mov state_mask(%rip), %eax\n xor %edx, %edx\n xsave64 state_out(%rip)\n xrstor64 state_usual(%rip)\n"
    " pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n ret\n"
    ".set number_rax,0\n.set number_rcx,1\n.set number_rdx,2\n.set number_rbx,3\n.set number_rsp,4\n"
    ".set number_rbp,5\n.set number_rsi,6\n.set number_rdi,7\n.set number_r8,8\n.set number_r9,9\n"
    ".set number_r10,10\n.set number_r11,11\n.set number_r12,12\n.set number_r13,13\n"
    ".set number_r14,14\n.set number_r15,15\n");
unsigned char state_usual[16384] __attribute__((aligned(64)));

static struct { uint64_t signal, code, address, at, error, trap; } fault;

// It runs with the instance's fs base, so it must not touch thread-local storage, and with its
// alignment check.
static void handler(int sig, siginfo_t *info, void *context) {
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    fault.signal = sig, fault.code = info->si_code, fault.address = (uint64_t)info->si_addr;
    fault.at = g[REG_RIP], fault.error = g[REG_ERR], fault.trap = g[REG_TRAPNO];
    g[REG_RIP] = (greg_t)instance_done;
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

// splitmix64, as testkit::soak::random.
static uint64_t chance(uint64_t *seed) {
    uint64_t z = *seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

// Offsets in the state of components: ymm, masks, zmm, zmm16 and above; 0 if there are none.
static unsigned parts[8];

static void look_at_processor(void) {
    state_mask = _xgetbv(0) & 0xe7;
    for (int number = 2; number < 8; number++) {
        unsigned size, at, c, d;
        __cpuid_count(0xd, number, size, at, c, d);
        if (state_mask >> number & 1) parts[number] = at;
    }
    state_usual[0] = 0x7f, state_usual[1] = 3;
    memcpy(state_usual + 24, &(uint32_t){0x1f80}, 4);
    memcpy(state_usual + 512, &(uint64_t){3}, 8);
}

// Small indices in some elements of 64 bits, ones, and numbers of any kind.
static void fill(unsigned char *at, size_t bytes, uint64_t *seed) {
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = chance(seed);
        switch (word >> 60) {
        case 0: case 1: word &= 0xff; break;
        case 2: word = -1; break;
        case 3: word &= 0xff000000ff; break;
        case 4: word = 0x3ff8000000000000; break;
        case 5: word = 0x7f8000003f800000; break;
        }
        memcpy(at + i, &word, 8);
    }
}

static void prepare(const struct instance *it) {
    uint64_t seed = it->seed;
    memset(state_in, 0, 4096);
    memcpy(state_in + 512, &state_mask, 8);
    memcpy(state_in, &it->fcw, 2), memcpy(state_in + 24, &it->mxcsr, 4);
    for (int i = 0; i < 16; i++) {
        fill(state_in + 160 + 16 * i, 16, &seed);
        if (parts[2]) fill(state_in + parts[2] + 16 * i, 16, &seed);
        if (parts[6]) fill(state_in + parts[6] + 32 * i, 32, &seed);
        if (parts[7]) fill(state_in + parts[7] + 64 * i, 64, &seed);
        if (parts[5] && i < 8) fill(state_in + parts[5] + 8 * i, 8, &seed);
    }
    // Some x87 registers: their tags, and the top of their stack.
    state_in[3] = chance(&seed) & 0x38, state_in[4] = chance(&seed);
    for (int i = 0; i < 8; i++) {
        uint64_t word = chance(&seed) | 1ul << 63;
        memcpy(state_in + 32 + 16 * i, &word, 8);
        memcpy(state_in + 40 + 16 * i, &(uint16_t){0x3fff + (word & 15)}, 2);
    }
    memcpy(registers_in, it->registers, sizeof registers_in);
    flags_in = it->flags, instance_code = it->at;
    uint64_t base = areas[it->at > UINT32_MAX];
    fs_in = FS, gs_in = GS;
    memset((void *)base, 0, AREA);
    for (int i = 0; i < AREA; i += 64) fill((void *)(base + i), 64, &seed);
}

static void show(const char *name, const void *from, size_t bytes) {
    printf(" %s", name);
    for (size_t i = 0; i < bytes; i++) printf("%s%02x", i % 8 ? "" : " ", ((unsigned char *)from)[i]);
    printf("\n");
}

static void show_state(uint64_t base) {
    static const char *const names[16] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                          "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"};
    for (int i = 0; i < 16; i++) printf(" %s %016lx, before %016lx\n", names[i], registers_out[i], registers_in[i]);
    printf(" flags %lx, before %lx\n bases %lx %lx\n", flags_out, flags_in, fs_out, gs_out);
    printf(" signal %lu code %ld address %lx at %lx error %lx trap %lx\n", fault.signal, (long)fault.code,
           fault.address, fault.at, fault.error, fault.trap);
    show("selectors", selectors_out, sizeof selectors_out);
    show("x87", state_out, 8), show("mxcsr", state_out + 24, 8);
    for (int i = 0; i < 8; i++) show("st", state_out + 32 + 16 * i, 16);
    for (int i = 0; i < 16; i++) {
        show("xmm", state_out + 160 + 16 * i, 16);
        if (parts[2]) show("ymm", state_out + parts[2] + 16 * i, 16);
        if (parts[6]) show("zmm", state_out + parts[6] + 32 * i, 32);
        if (parts[7]) show("zmm16", state_out + parts[7] + 64 * i, 64);
        if (parts[5] && i < 8) show("k", state_out + parts[5] + 8 * i, 8);
    }
    for (int i = 0; i < AREA; i += 32) {
        char name[16];
        snprintf(name, sizeof name, "[%x]", i);
        show(name, (void *)(base + i), 32);
    }
}

static void run(int number, const struct instance *it, int is_shown) {
    prepare(it);
    memset(&fault, 0, sizeof fault);
    memset(state_out, 0, 4096);
    instance_run();
    uint64_t base = areas[it->at > UINT32_MAX];
    // The last x87 instruction is left out (docs/limits.md), and the header.
    memset(state_out + 6, 0, 18), memset(state_out + 512, 0, 64);
    uint64_t h = hash(1, &fault, sizeof fault);
    h = hash(h, registers_out, sizeof registers_out);
    uint64_t others[4] = {flags_out, fs_out, gs_out};
    memcpy(&others[3], selectors_out, 8);
    h = hash(h, others, sizeof others), h = hash(h, state_out, 4096), h = hash(h, (void *)base, AREA);
    printf("%d %016lx %lu\n", number, h, fault.signal);
    if (is_shown) show_state(base);
    fflush(stdout);
}

static void *map(uint64_t at, size_t bytes) {
    void *got = mmap((void *)at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != (void *)at) _exit(2);
    return got;
}

int main(int count, char **arguments) {
    FILE *file = count > 1 ? fopen(arguments[1], "r") : 0;
    if (!file) return 1;
    fseek(file, 0, SEEK_END);
    size_t bytes = ftell(file), instances = bytes / sizeof(struct instance);
    rewind(file);
    struct instance *all = malloc(bytes + 1);
    if (fread(all, 1, bytes, file) != bytes) return 1;
    for (int i = 0; i < 2; i++) map(areas[i], AREA);
    uint64_t mapped = 0, first[2] = {-1, -1}, end[2] = {0, 0};
    for (size_t i = 0; i < instances; i++) {
        int high = all[i].at > UINT32_MAX;
        if (all[i].at < first[high]) first[high] = all[i].at & -PAGE;
        if (all[i].at + 192 > end[high]) end[high] = (all[i].at + 192 + PAGE) & -PAGE;
    }
    for (int high = 0; high < 2; high++) if (end[high]) mapped = (uint64_t)map(first[high], end[high] - first[high]);
    for (size_t i = 0; mapped && i < instances; i++) {
        char *at = (char *)all[i].at;
        memcpy(at, all[i].code, all[i].length), at += all[i].length;
        memcpy(at, "\xff\x25\0\0\0\0", 6), memcpy(at + 6, &(char *){instance_done}, 8);
    }
    for (int high = 0; high < 2; high++) if (end[high]) mprotect((void *)first[high], end[high] - first[high], PROT_READ | PROT_EXEC);
    static char alternate[65536] __attribute__((aligned(64)));
    sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = sizeof alternate}, 0);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    for (int i = 0; i < 5; i++) sigaction(signals[i], &action, 0);
    look_at_processor();
    for (size_t i = 0; i < instances; i++) run(i, &all[i], count > 2);
    return 0;
}
