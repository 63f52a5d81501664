/* The calling context of the caller, as text for a log: `everypath decode` makes the path of it.
 *
 *     #include "everypath.h"
 *     fprintf(log, "cannot open %s %s\n", name, everypath_context());
 *
 * In a program that `everypath encode` has edited it is a word such as `evp:1180.1c5.2.1189.0.0`, and in any other an empty text. It is
 * valid until the thread asks again. No library is needed, and no more than a few loads are done, after the first time in a thread.
 *
 * Source: crates/wire/src/contexts.rs has the layout of what is read. */
#ifndef EVERYPATH_H
#define EVERYPATH_H

#include <stdint.h>

struct everypath_record {
    uint64_t level, number, site, interrupted, stack, stack_before;
    uint32_t entry, by, below, kind;
};
struct everypath_state {
    uint64_t number, site, top, lost, handlers, magic;
};
enum { EVERYPATH_TEXT = 1024 };

/* The first byte of the file in memory; the linker knows it. */
extern const char __ehdr_start __attribute__((visibility("hidden")));

static __thread uintptr_t everypath_memory;
static __thread char everypath_text[EVERYPATH_TEXT];

/* Digits of a number behind a text that ends at a place. */
static inline char *everypath_put(char *at, char before, uint64_t number) {
    int digits = 1;
    *at++ = before;
    for (uint64_t rest = number; rest >>= 4;) digits++;
    for (int digit = digits - 1; digit >= 0; digit--) *at++ = "0123456789abcdef"[number >> 4 * digit & 15];
    return at;
}

/* Not inlined: it is the function that the path ends with. */
__attribute__((noinline, used)) static const char *everypath_context(void) {
    uintptr_t memory = everypath_memory, own, stack = (uintptr_t)__builtin_frame_address(0);
    if (!memory) {
        long result;
        /* arch_prctl(ARCH_GET_GS, &memory) */
        __asm__ volatile("syscall" : "=a"(result) : "0"(158L), "D"(0x1004L), "S"(&memory) : "rcx", "r11", "memory");
        __asm__("mov %%fs:0, %0" : "=r"(own));
        if (result || !memory || *(volatile uintptr_t *)memory != own) return "";
        everypath_memory = memory;
    }
    const volatile struct everypath_state *state = (const void *)(memory + 4096);
    if (state->magic != 0x0058544343505645) return "";
    char *at = everypath_text;
    *at++ = 'e', *at++ = 'v', *at++ = 'p';
    at = everypath_put(at, ':', (uintptr_t)everypath_context - (uintptr_t)&__ehdr_start);
    at = everypath_put(at, '.', state->number);
    for (uintptr_t place = state->top; at < everypath_text + EVERYPATH_TEXT - 100;) {
        const volatile struct everypath_record *record = (const void *)(memory + place);
        place = record->below;
        /* 0: the bottom, 1, 2: entered by other code, 3: a call, 4: a mark, 5: lost, 6: a handler of a signal */
        if (record->kind == 0) break;
        if (record->kind == 4 || (record->kind != 6 && record->level < stack)) continue;
        uint64_t by = record->kind == 3 ? record->by : record->site >> 32;
        at = everypath_put(at, '.', record->kind);
        at = everypath_put(at, '.', record->entry);
        at = everypath_put(at, '.', by);
        at = everypath_put(at, '.', record->number);
        if (record->kind >= 5 || !by) break;
        stack = record->kind == 3 ? record->level + 8 : record->level + (int32_t)((uint32_t)record->site - (uint32_t)record->level);
    }
    if (state->lost >= (uintptr_t)__builtin_frame_address(0)) *at++ = '?';
    *at = 0;
    return everypath_text;
}

#endif
