// Operands relative to rip and eip in code that the code cache cannot reach, so that they get
// another address form: with ah, ch, dh and bh, which cannot be named beside r8 to r15, with the
// base of fs, with reserved fields, and in `cmpxchg`, whose rax is implied.
// build: cc -O1 -no-pie -mfsgsbase -fno-stack-protector -fcf-protection=none
// run: needs fsgsbase
// run: no-oracle its handler goes on where no function returns to
#include "snippets.h"
#include <immintrin.h>

#define FAR_CODE 0x6a0090000000ul
#define FAR_DATA 0x6a0091000000ul
#define FS 0x800

static unsigned long in, out, kept;
static int slot;

static void place(unsigned char *code, const char *bytes, size_t count) {
    // The displacement is the last four bytes of each.
    static unsigned char head[64], tail[64];
    size_t at = 0;
    memcpy(head, "\x48\x8b\x07\x48\x8b\x0f\x48\x89\xca", 9); // mov rax, [rdi]; mov rcx, [rdi]; mov rdx, rcx
    at += 9, memcpy(head + at, "\x53\x48\x89\xcb", 4), at += 4; // push rbx; mov rbx, rcx
    memcpy(head + at, bytes, count), at += count;
    int distance = FAR_DATA - (FAR_CODE + slot * 64 + at);
    memcpy(head + at - 4, &distance, 4);
    // add rax, rcx; add rax, rdx; add rax, rbx; pop rbx; ret
    memcpy(tail, "\x48\x01\xc8\x48\x01\xd0\x48\x01\xd8\x5b\xc3", 11);
    memcpy(code + slot * 64, head, at), memcpy(code + slot * 64 + at, tail, 11);
}

static const struct { const char *name, *bytes; size_t count; } forms[] = {
    {"adc ch", "\x12\x2d\0\0\0\0", 6},          {"mov [], dh", "\x88\x35\0\0\0\0", 6},
    {"add [], ah", "\x00\x25\0\0\0\0", 6},      {"xchg bh", "\x86\x3d\0\0\0\0", 6},
    {"cmpxchg ch", "\x0f\xb0\x2d\0\0\0\0", 7},  {"mov fs:", "\x64\x48\x8b\x05\0\0\0\0", 8},
    {"add fs:", "\x64\x01\x0d\0\0\0\0", 7},     {"xadd bh", "\xf0\x0f\xc0\x3d\0\0\0\0", 8},
    {"lea", "\x48\x8d\x05\0\0\0\0", 7},
};

int main(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    unsigned char *code = mmap((void *)FAR_CODE, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    unsigned long *data = mmap((void *)FAR_DATA, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (code == MAP_FAILED || data == MAP_FAILED) return 1;
    int count = sizeof forms / sizeof *forms;
    for (slot = 0; slot < count; slot++) place(code, forms[slot].bytes, forms[slot].count);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    for (int i = 0; i < count; i++) {
        data[0] = 0x1122334455667788, data[FS / 8] = 0x99aabbccddeeff00, in = 0x0102030405060708 * (i + 3);
        kept = _readfsbase_u64();
        _writefsbase_u64(FS);
        out = ((unsigned long (*)(unsigned long *))(code + i * 64))(&in);
        _writefsbase_u64(kept);
        printf("%s: %lx %lx %lx\n", forms[i].name, out, data[0], data[FS / 8]);
    }
    // Relative to eip, below 4 GB: the target is the same from everywhere.
    snippets();
    SNIPPET("mov eax, [eip]", 0x67, 0x8b, 0x05, 0, 0, 0, 0);
    SNIPPET("lea rax, [eip+16]", 0x67, 0x48, 0x8d, 0x05, 16, 0, 0, 0);
    SNIPPET("add ch, [eip]", 0x67, 0x02, 0x2d, 0, 0, 0, 0);
    SNIPPET("cmp [eip], 7", 0x67, 0x83, 0x3d, 0, 0, 0, 0, 7);
    SNIPPET("push [eip]", 0x67, 0xff, 0x35, 0, 0, 0, 0);
    SNIPPET("gs, reserved vvvv", 0x65, 0xc5, 0xf1, 0x11, 0x07);
    return 0;
}
