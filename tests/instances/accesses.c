// Executes instances of one instruction, each seven times: as it is, with one of its three pages
// of memory not accessible, and with one of them not writable. So the processor says which pages an
// instruction reads and writes, and, where an operand ends at a page's end, how many bytes.
//
// The first argument names a file of `struct instance`, the second the file of `struct result`.
// build: cc -O1 -no-pie -mfsgsbase -mxsave -fno-stack-protector -fcf-protection=none
// run: needs fsgsbase xsave
// run: timeout 120
// run: no-oracle it executes a hundred thousand instructions by their encodings
#define main runner_main
#include "runner.c"
#undef main

struct outcome { uint64_t signal, address, error; };

// As testkit/src/instances/accesses.rs has it.
struct result {
    unsigned char vectors[32][64];
    uint64_t opmasks[8], mmx[8], rcx;
    struct outcome plain, closed[3], constant[3];
};

static struct outcome execute(const struct instance *it, int page, int protection) {
    char *at = (char *)areas[it->at > UINT32_MAX];
    prepare(it);
    memset(&fault, 0, sizeof fault);
    if (page >= 0) mprotect(at + page * PAGE, PAGE, protection);
    instance_run();
    mprotect(at, AREA, PROT_READ | PROT_WRITE);
    return (struct outcome){fault.signal, fault.address, fault.error};
}

static void read_state(struct result *to) {
    memset(to, 0, sizeof *to);
    for (int i = 0; i < 16; i++) {
        memcpy(to->vectors[i], state_in + 160 + 16 * i, 16);
        if (parts[2]) memcpy(to->vectors[i] + 16, state_in + parts[2] + 16 * i, 16);
        if (parts[6]) memcpy(to->vectors[i] + 32, state_in + parts[6] + 32 * i, 32);
        if (parts[7]) memcpy(to->vectors[i + 16], state_in + parts[7] + 64 * i, 64);
    }
    int top = state_in[3] >> 3 & 7;
    for (int i = 0; i < 8; i++) {
        if (parts[5]) memcpy(&to->opmasks[i], state_in + parts[5] + 8 * i, 8);
        memcpy(&to->mmx[i], state_in + 32 + 16 * ((i - top) & 7), 8);
    }
}

int main(int count, char **arguments) {
    FILE *file = count > 2 ? fopen(arguments[1], "r") : 0, *out = count > 2 ? fopen(arguments[2], "w") : 0;
    if (!file || !out) return 1;
    static struct instance it;
    for (int i = 0; i < 2; i++) map(areas[i], AREA);
    // The first instance's code, as testkit's `Place::code` has it: every instance is there.
    char *code[2] = {map(0x69000000, PAGE), map(0x6a0090000000, PAGE)};
    mprotect(code[0], PAGE, PROT_READ | PROT_WRITE | PROT_EXEC), mprotect(code[1], PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
    static char stack[65536];
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, 0);
    int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    for (int i = 0; i < 5; i++) sigaction(signals[i], &(struct sigaction){.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK}, 0);
    look_at_processor();
    while (fread(&it, sizeof it, 1, file) == 1) {
        static struct result result;
        char *at = (char *)it.at;
        memcpy(at, it.code, it.length), at += it.length;
        memcpy(at, "\xff\x25\0\0\0\0", 6), memcpy(at + 6, &(char *){instance_done}, 8);
        prepare(&it);
        read_state(&result);
        result.plain = execute(&it, -1, 0);
        result.rcx = registers_out[1];
        for (int page = 0; page < 3; page++) {
            result.closed[page] = execute(&it, page, PROT_NONE);
            result.constant[page] = execute(&it, page, PROT_READ);
        }
        if (fwrite(&result, sizeof result, 1, out) != 1) return 1;
    }
    return fclose(out) != 0;
}
