// Work in rounds, as many as the first argument says: the C library, repeated
// string instructions, signals, stubs bound lazily, two threads. How many instructions a round
// takes is the same natively and translated; what runs before and after the
// rounds depends on where stack and environment lie.
// build: cc -O2 -pthread
// part: static cc -O2 -pthread -static
// run: args 3 library repeats signals stubs
// run: oracle own-functions
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
// Aligned, because string functions take other paths at other alignments.
static _Alignas(4096) char text[4096], copy[4096];
static _Alignas(4096) int numbers[64];
static volatile unsigned sum;
static volatile int handled;
static int ready[2];
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static unsigned hash(const char *s) { unsigned h = 5381; while (*s) h = h * 33 ^ (unsigned char)*s++; return h; }
static void library(unsigned round) {
    for (int i = 0; i < 64; i++) numbers[i] = (int)(round * 2654435761u * (unsigned)(i + 1) >> 7);
    qsort(numbers, 64, sizeof numbers[0], compare);
    int length = snprintf(text, sizeof text, "%u %x %s %d", round, numbers[7], "words", numbers[40]);
    void *blocks[10];
    for (int i = 0; i < 10; i++) memset(blocks[i] = malloc(100u * (unsigned)i + 24), i, 24);
    for (int i = 0; i < 10; i++) free(blocks[(i * 7) % 10]);
    memmove(copy + 1, text, (size_t)length + 1);
    sum = sum * 31 + hash(copy + 1) + (unsigned)strtol(text, 0, 10) + (unsigned)strlen(copy + 1);
}
static void repeats(unsigned round) {
    for (unsigned long n = 0; n < 70; n += 23) {
        char *from = text, *to = copy;
        unsigned long count = n + round;
        __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
        count = n;
        __asm__ volatile("rep stosq" : "+D"(from), "+c"(count) : "a"(0x4142434445464748) : "memory");
        to = copy;
        count = 1000;
        __asm__ volatile("repne scasb" : "+D"(to), "+c"(count) : "a"(0) : "memory", "cc");
        sum += (unsigned)count;
    }
}
static void handler(int signal) { handled += signal; library((unsigned)handled); }
static void signals(unsigned round) {
    raise(SIGUSR1);
    sum += round;
    syscall(SYS_tgkill, getpid(), gettid(), SIGUSR2);
}
// One stub a round, as the dynamic linker makes them: the first call binds it, the
// others find it bound. Branches stand before its jump, some taken.
extern char stub0[], stub1[];
__asm__(".text\n"
    ".irp n,0,1,2,3,4,5,6,7\n"
    ".p2align 6\nstub\\n: endbr64\n test $1, %dil\n jz 1f\n mov (%rsp), %rdx\n test $2, %dil\n jnz 1f\n"
    " adc $0, %rdx\n 1: mov (%rsp), %rdx\n jmp *slots + 8 * \\n(%rip)\n"
    ".p2align 6\nlazy\\n: .byte 0x68, \\n, 0, 0, 0\n jmp binder\n"
    ".endr\n"
    "binder: pop %rax\n lea bound(%rip), %rdx\n lea slots(%rip), %rcx\n mov %rdx, (%rcx, %rax, 8)\n jmp *%rdx\n"
    ".p2align 6\nbound: lea 1(%rdi), %rax\n ret\n"
    ".data\n.p2align 3\nslots: .quad lazy0, lazy1, lazy2, lazy3, lazy4, lazy5, lazy6, lazy7\n.text\n");
static void stubs(unsigned round) {
    unsigned (*stub)(unsigned) = (unsigned (*)(unsigned))(stub0 + (stub1 - stub0) * (long)round);
    for (unsigned i = 0; i < 6; i++) sum += stub(i);
}
static void *second(void *argument) {
    unsigned rounds = (unsigned)(long)argument;
    for (unsigned round = 0; round < rounds; round++) { repeats(round); library(round); }
    // The first thread has ended long before this sleep has: no instruction of
    // either depends on which one is quicker.
    char byte;
    if (read(ready[0], &byte, 1) == 1) nanosleep(&(struct timespec){0, 300000000}, 0);
    _exit(0);
}
static void threads(unsigned rounds) {
    pthread_t thread;
    if (pipe(ready) || pthread_create(&thread, 0, second, (void *)(long)rounds)) _exit(1);
    for (unsigned round = 0; round < rounds; round++) sum += round;
    if (write(ready[1], "x", 1) == 1) syscall(SYS_exit, 0);
}
int main(int argc, char **argv) {
    unsigned rounds = (unsigned)atoi(argv[1]);
    signal(SIGUSR1, handler);
    signal(SIGUSR2, handler);
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "threads")) threads(rounds);
        for (unsigned round = 0; round < rounds; round++) {
            if (!strcmp(argv[i], "library")) library(round);
            if (!strcmp(argv[i], "repeats")) repeats(round);
            if (!strcmp(argv[i], "signals")) signals(round);
            if (!strcmp(argv[i], "stubs")) stubs(round);
        }
    }
    printf("%u %d\n", sum, handled);
    return 0;
}
