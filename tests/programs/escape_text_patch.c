// A program that makes its own text writable and patches functions, also the
// one that runs and one that another thread runs, by plain stores, then makes
// it read-only again; and a detour as hooking libraries write it: a jump over
// a function's first bytes, to a trampoline that holds those bytes.
// build: cc -O1 -fno-inline -fcf-protection=none -pthread
// run: oracle own-functions
// run: no-counts a thread calls a function until another one has patched it
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
// mov $1, %eax; add %edi, %eax; ret
__attribute__((naked, aligned(64))) int victim(int x) { asm("mov $1, %eax\n\tadd %edi, %eax\n\tret"); }
__attribute__((naked, aligned(64))) int spinner(void) { asm("0: mov $7, %eax\n\tpause\n\ttest %eax, %eax\n\tjnz 0b\n\tmov $9, %eax\n\tret"); }
// Stores 0x22 into the operand of its own next instruction.
__attribute__((naked, aligned(64))) int itself(void) { asm("movb $0x22, 1f+1(%rip)\n\t1: mov $0x11, %eax\n\tret"); }
static int replacement(int x);
static int (*original)(int);
static int replacement(int x) { return 1000 + original(x); }
static int rights(void *p, int prot) {
    uintptr_t page = (uintptr_t)p & -4096;
    return mprotect((void *)page, 8192, prot);
}
static void *spin(void *ready) { *(volatile int *)ready = 1; return (void *)(long)spinner(); }
int main(void) {
    unsigned char *v = (unsigned char *)victim, *s = (unsigned char *)spinner;
    printf("before %d\n", victim(5));
    printf("writable %d\n", rights(v, PROT_READ | PROT_WRITE | PROT_EXEC));
    for (int i = 0; i < 5; i++) { v[1] = 10 * i; printf("%d ", victim(5)); }
    rights(v, PROT_READ | PROT_EXEC);
    printf("\nread-only %d\n", victim(6));
    rights((void *)itself, PROT_READ | PROT_WRITE | PROT_EXEC);
    printf("itself %x\n", itself());
    rights((void *)itself, PROT_READ | PROT_EXEC);
    pthread_t t;
    volatile int ready = 0;
    void *result;
    pthread_create(&t, 0, spin, (void *)&ready);
    while (!ready) usleep(100);
    rights(s, PROT_READ | PROT_WRITE | PROT_EXEC);
    s[1] = 0;
    pthread_join(t, &result);
    rights(s, PROT_READ | PROT_EXEC);
    printf("other thread left with %ld\n", (long)result);
    // A detour, written while the page is writable and not executable.
    unsigned char *trampoline = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char jump[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
    uintptr_t to = (uintptr_t)replacement;
    unsigned char first[8];
    memcpy(first, v, 8);
    memcpy(jump + 2, &to, 8);
    memcpy(trampoline, v, 8);
    mprotect(trampoline, 4096, PROT_READ | PROT_EXEC);
    original = (int (*)(int))trampoline;
    rights(v, PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy(v, jump, sizeof jump);
    rights(v, PROT_READ | PROT_EXEC);
    printf("hooked %d\n", victim(7));
    rights(v, PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy(v, first, 8);
    rights(v, PROT_READ | PROT_EXEC);
    printf("unhooked %d\n", victim(7));
    return 0;
}
