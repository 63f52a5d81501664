// Shared by all classes and interfaces of the sweep: digests, and system calls
// in the middle of a class's own instructions.
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;

// A system call that changes nothing (getppid), for the middle of a class's asm:
// everything but rax, rcx and r11 must survive it.
#define KERNEL "mov $110, %%eax\n syscall\n"
#define KERNEL_CLOBBERS "rax", "rcx", "r11"

// One step of a digest (the constants of splitmix64).
static inline u64 mix(u64 digest, u64 value) {
    digest += value + 0x9e3779b97f4a7c15;
    digest = (digest ^ (digest >> 30)) * 0xbf58476d1ce4e5b9;
    return digest ^ (digest >> 27);
}

static inline u64 mix_bytes(u64 digest, const void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) digest = mix(digest, ((const unsigned char *)bytes)[i]);
    return digest;
}

// Flags as pushf stores them, but only those that arithmetic defines: CF PF ZF SF OF.
#define ARITHMETIC_FLAGS 0x8c5

static inline void show(const char *what, u64 value) {
    printf("%s %016llx\n", what, (unsigned long long)value);
    fflush(stdout);
}

// Ends the program where a call fails that must not.
#define MUST(call)                                                                  \
    do {                                                                            \
        if ((long)(call) == -1) {                                                   \
            printf("line %d: %s: %s\n", __LINE__, #call, strerror(errno));          \
            exit(3);                                                                \
        }                                                                           \
    } while (0)

// The instructions of the class, from `seed`; uses only its own stack, so that
// handlers, threads and children may call it at any time. Defined by the class.
static u64 work(u64 seed) __attribute__((noinline));
