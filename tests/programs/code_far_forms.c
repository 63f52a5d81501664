// Far branches of every form and size, by selectors of 64-bit code, by selectors that fault, from and to memory that
// faults, and flags that iret loads. None leads to 32-bit code, which is not followed.
// build: cc -O1 -no-pie
// run: no-oracle its handler goes on where no function returns to
#include "snippets.h"
#include <asm/ldt.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { TARGET = CODE + 16, OTHER_STACK = STACK + 64 };
static const struct form { const char *name; unsigned char bytes[8]; int length, unit, is_iret, is_pointer; } forms[] = {
    {"lret", {0xcb}, 1, 4}, {"lretq", {0x48, 0xcb}, 2, 8}, {"lret n", {0xca, 0x18, 0}, 3, 4}, {"lretq n", {0x48, 0xca, 0x18, 0}, 4, 8},
    {"lretw", {0x66, 0xcb}, 2, 2}, {"lretq 66", {0x66, 0x48, 0xcb}, 3, 8}, {"lretq f3", {0xf3, 0x48, 0xcb}, 3, 8}, {"lock lret", {0xf0, 0xcb}, 2, 4},
    {"iret", {0xcf}, 1, 4, 1}, {"iretq", {0x48, 0xcf}, 2, 8, 1}, {"iretw", {0x66, 0xcf}, 2, 2, 1},
    {"ljmp", {0xff, 0x28}, 2, 4, 0, 1}, {"ljmp rex.w", {0x48, 0xff, 0x28}, 3, 0, 0, 1}, {"ljmpw", {0x66, 0xff, 0x28}, 3, 2, 0, 1},
    {"ljmp 67", {0x67, 0xff, 0x28}, 3, 4, 0, 1}, {"ljmp fs", {0x64, 0xff, 0x28}, 3, 4, 0, 1}, {"ljmp gs", {0x65, 0xff, 0x28}, 3, 4, 0, 1},
    {"lcall", {0xff, 0x18}, 2, 4, 0, 1}, {"lcall rex.w", {0x48, 0xff, 0x18}, 3, 0, 0, 1}, {"lcallw", {0x66, 0xff, 0x18}, 3, 2, 0, 1},
    {"lcall gs", {0x65, 0xff, 0x18}, 3, 4, 0, 1}, {"lcall sp", {0xff, 0x1c, 0x24}, 3, 4}, {"ljmp sp", {0xff, 0x2c, 0x24}, 3, 4},
};
static int pointer_offset;
// The instruction is at code+4, whose target is code+16.
static void run(const struct form *form, const char *what, uint64_t target, uint16_t selector, uint64_t flags, uint64_t ss) {
    unsigned char code[17];
    char name[99];
    int unit = form->unit ? form->unit : pointer_offset;
    uint64_t values[] = {target, selector, flags, OTHER_STACK, ss};
    memset(code, 0xf4, sizeof code);
    memset(code, 0x90, 4);
    memcpy(code + 4, form->bytes, form->length);
    code[16] = 0x90;
    memset(snippet_stack, 0x5a, sizeof snippet_stack);
    char *to = form->is_pointer ? (char *)PATTERN(0) : (char *)&snippet_stack[32];
    for (int i = 0; i < (form->is_iret ? 5 : 2); i++) memcpy(to + i * unit, &values[i], i == 1 && !form->is_iret && unit < 8 ? 2 : unit);
    snprintf(name, sizeof name, "%s %s", form->name, what);
    snippet(name, code, sizeof code);
}
static uint64_t flags_now;
static void flags(uint64_t value) {
    // iretq; at the target: pushfq, pop into rbx, cleared again.
    static const unsigned char bytes[] = {0x48, 0xcf, 0xf4, 0xf4, 0x9c, 0x5b, 0x68, 2, 2, 0, 0, 0x9d};
    char name[40];
    uint64_t frame[] = {CODE + 4, 0x33, value, OTHER_STACK, 0x2b};
    memcpy(&snippet_stack[32], frame, sizeof frame);
    snprintf(name, sizeof name, "iretq flags %lx", value);
    snippet(name, bytes, sizeof bytes);
}
int main(void) {
    uint32_t a = 0, b, c, d;
    asm("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d));
    pointer_offset = b == 0x68747541 || b == 0x6f677948 ? 4 : 8;   // AuthenticAMD, HygonGenuine
    snippets();
    syscall(SYS_arch_prctl, 0x1001, 0);
    // Number 1: data; 2: 32-bit code that is not present.
    struct user_desc desc = {.entry_number = 1, .limit = 0xfffff, .seg_32bit = 1, .limit_in_pages = 1, .useable = 1};
    int has_local = !syscall(SYS_modify_ldt, 1, &desc, sizeof desc);
    desc.entry_number = 2, desc.contents = 2, desc.seg_not_present = 1;
    syscall(SYS_modify_ldt, 1, &desc, sizeof desc);
    const struct { const char *name; uint16_t selector; int is_local; } selectors[] = {
        {"33", 0x33}, {"32", 0x32}, {"30", 0x30}, {"null", 0}, {"null 3", 3}, {"data", 0x2b}, {"kernel", 0x10}, {"kernel 3", 0x13},
        {"beyond", 0xfff8}, {"all", 0xffff}, {"local data", 0xf, 1}, {"local absent", 0x17, 1}, {"local none", 0x3f, 1}};
    enum { FORMS = sizeof forms / sizeof *forms, SELECTORS = sizeof selectors / sizeof *selectors };
    for (int round = 0; round < 2; round++) {
        for (int f = 0; f < FORMS; f++) {
            // fs is the C library's, with its pointer at no fixed distance: it must fault.
            if (!strcmp(forms[f].name, "ljmp fs")) {
                SNIPPET("ljmp fs, not canonical", 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0x70, 0x64, 0xff, 0x28);
                continue;
            }
            for (int s = 0; s < SELECTORS; s++)
                if (!selectors[s].is_local || has_local) run(&forms[f], selectors[s].name, TARGET, selectors[s].selector, 0x202, 0x2b);
            if (forms[f].unit == 2) continue;
            run(&forms[f], "to nothing", 0x20000000, 0x33, 0x202, 0x2b);
            run(&forms[f], "to data", PATTERN(1), 0x33, 0x202, 0x2b);
            if (forms[f].unit != 8) continue;
            run(&forms[f], "not canonical", 1ul << 47, 0x33, 0x202, 0x2b);
            run(&forms[f], "to the kernel", -1ul << 47, 0x33, 0x202, 0x2b);
            run(&forms[f], "behind all", (1ul << 47) - 4096, 0x33, 0x202, 0x2b);
        }
        for (int f = 0; f < FORMS; f++) if (forms[f].is_iret && forms[f].unit > 2) {
            const uint16_t stacks[] = {0x2b, 0, 3, 0x33, 0x23, 0x13, 0x2a, 0xffff, 0x17};
            for (int s = 0; s < 8 + has_local; s++) {
                char name[20];
                snprintf(name, sizeof name, "ss %x", stacks[s]);
                run(&forms[f], name, TARGET, 0x33, 0x202, stacks[s]);
            }
        }
        static const uint64_t values[] = {0, 0x202, 0x100, 0x4000, 0x40000, 0x200000, 0x10000, 0x3000, 0xad5, 0x400, 0x20000, 0x180000, ~0x44100ul};
        for (unsigned i = 0; i < sizeof values / sizeof *values; i++) flags(values[i]);
        // Nested task: set by popf, then iretq faults.
        memset(snippet_stack, 0x5a, sizeof snippet_stack);
        SNIPPET("iretq nested", 0x68, 0x02, 0x42, 0, 0, 0x9d, 0x48, 0xcf);
        asm volatile("sub $128, %rsp; pushq $0x202; popfq; add $128, %rsp");
        // The stack, or the pointer, at the end of what can be read, and not canonical.
        for (int f = 0; f < FORMS; f++) if (strcmp(forms[f].name, "ljmp fs")) {
            const uint64_t ends[] = {(STACK | 4095) + 1, (STACK | 4095) - 3, (STACK | 4095) - 11, 1ul << 47, (1ul << 47) - 2, -1ul << 47, 8};
            for (int e = 0; e < 7; e++) {
                uint64_t *end = &snippet_in[forms[f].is_pointer ? 0 : 4], before = *end;
                *end = ends[e];
                char name[99];
                snprintf(name, sizeof name, "%s at end %d", forms[f].name, e);
                if (ends[e] >= STACK && ends[e] < STACK + 4096) memset((char *)ends[e], 0, ((STACK | 4095) + 1) - ends[e]);
                snippet(name, forms[f].bytes, forms[f].length);
                *end = before;
            }
        }
        // A call that cannot push.
        run(&(struct form){"lcall", {0xff, 0x18}, 2, 4, 0, 1}, "pushes", TARGET, 0x33, 0, 0);
        mprotect((void *)(STACK & ~4095), 4096, PROT_READ);
        snippet_in[4] = STACK & ~4095ul;
        static const unsigned char call[] = {0xff, 0x18};
        snippet_in[0] = PATTERN(0);
        mprotect((void *)(STACK & ~4095), 4096, PROT_READ | PROT_WRITE);
        snippet("lcall below the stack", call, 2);
        snippet_in[4] = STACK;
    }
    return 0;
}
