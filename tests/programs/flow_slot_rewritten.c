// Jumps and calls through a word at a fixed address, as the stubs of the dynamic
// linker make them, while the word changes: to other functions, to code that binds
// it (a push of a 32-bit number first) and back, by this thread and by another; called,
// jumped to as a tail, and with the word out of reach for a while.
// build: cc -O1 -pthread -fno-inline
// run: oracle
// run: oracle-args 12
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
// On a page of its own: it is taken away below.
_Alignas(4096) static union { void *word; char page[4096]; } slot;
static long binds;
static long add(long a) { return a + 1; }
static long twice(long a) { return a * 2; }
static long negated(long a) { return -a; }
static void *const functions[] = {add, twice, negated};
__attribute__((used)) static void *bind(long number) { binds++; return slot.word = functions[number]; }
long stub(long), tail(long, long), counted(long), calls(long);
// Registers that hold no argument must come through, and the flags.
asm("\n.text\n"
    ".p2align 4\nstub:\n endbr64\n jmp *slot(%rip)\n"
    ".p2align 4\ncounted:\n stc\n call stub_keeps\n sbb %rdx, %rdx\n sub %rdx, %rax\n ret\n"
    ".p2align 4\nstub_keeps:\n jmp *keeps(%rip)\n"
    "keeps_carry:\n mov %rcx, %rax\n lea 5(%rdi), %rcx\n xchg %rcx, %rax\n ret\n"
    ".p2align 4\ntail:\n lea (%rdi, %rsi), %rdi\n jmp stub\n"
    ".p2align 4\ncalls:\n sub $8, %rsp\n call *slot(%rip)\n add $8, %rsp\n ret\n"
    ".p2align 4\nlazy0:\n endbr64\n .byte 0x68, 0, 0, 0, 0\n jmp binder\n"
    ".p2align 4\nlazy2:\n .byte 0x68, 2, 0, 0, 0\n bnd jmp binder\n"
    "binder:\n push %rdi\n mov 8(%rsp), %rdi\n call bind\n pop %rdi\n add $8, %rsp\n jmp *%rax\n"
    ".data\nkeeps: .quad keeps_carry\n.text\n");
extern char lazy0[], lazy2[];
static sigjmp_buf out;
static void on_fault(int sig, siginfo_t *info, void *context) {
    printf("fault at the word: %d\n", info->si_addr == (void *)&slot);
    siglongjmp(out, 1);
}
static long sum;
static void all(long i) {
    sum = sum * 3 + stub(i) + tail(i, 1) + calls(i) + counted(i);
}
static volatile int stop;
static void *rewrites(void *unused) {
    for (long i = 0; !stop; i++) __atomic_store_n(&slot.word, functions[i % 2], __ATOMIC_RELAXED);
    return 0;
}
int main(int argc, char **argv) {
    long rounds = argc > 1 ? atoi(argv[1]) : 3000;
    for (long i = 0; i < rounds; i++) {
        long part = rounds / 6;
        if (i % part == 0) slot.word = i / part % 2 ? lazy2 : lazy0;
        if (i % part == part / 2) slot.word = functions[i % 3];
        all(i);
    }
    printf("%ld, bound %ld times\n", sum, binds);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    for (int i = 0; i < 2; i++) {
        mprotect(&slot, sizeof slot, PROT_NONE);
        if (!sigsetjmp(out, 1)) i ? calls(1) : tail(1, 1);
        mprotect(&slot, sizeof slot, PROT_READ | PROT_WRITE);
        all(i);
    }
    printf("%ld\n", sum);
    if (argc > 1) return 0;
    slot.word = add;
    pthread_t thread;
    pthread_create(&thread, 0, rewrites, 0);
    long wrong = 0;
    for (long i = 1; i < 400000; i++) {
        long a = stub(i), b = calls(i);
        wrong += (a != i + 1 && a != i * 2) || (b != i + 1 && b != i * 2);
    }
    stop = 1;
    pthread_join(thread, 0);
    printf("wrong %ld\n", wrong);
    return 0;
}
