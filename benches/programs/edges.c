// Nanoseconds of each kind of control flow: `edges ROUNDS [hot]` prints one line
// per kind, "kind nanoseconds"; with `hot` only what stays in user space. Each kind has a loop of its own around EDGES edges
// of it; the loop's own branch is the kind `conditional`, and part of all.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long rounds;
static volatile long sink;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void report(const char *kind, double start, double edges) {
    printf("%s %.3f\n", kind, (now() - start) / edges);
}

static void direct(void) {
    double start = now();
    for (long i = 0; i < rounds; i++)
        __asm__ volatile("jmp 1f\n.p2align 4\n1: jmp 2f\n.p2align 4\n2: jmp 3f\n.p2align 4\n3: jmp 4f\n.p2align 4\n4:");
    report("direct-jump", start, rounds * 4.0);
}

static void conditional(void) {
    double start = now();
    long taken = 0;
    for (long i = 0; i < rounds; i++) {
        // Taken every second time, every third, and never.
        __asm__ volatile("test $1, %1\njz 1f\ninc %0\n1: cmp $0, %1\njl 2f\ninc %0\n2:" : "+r"(taken) : "r"(i) : "cc");
    }
    sink = taken;
    report("conditional", start, rounds * 3.0);
}

__attribute__((noinline, noclone)) static void leaf(void) { __asm__ volatile(""); }
__attribute__((noinline, noclone)) static void node(void) { leaf(); __asm__ volatile(""); }

static void call(void) {
    double start = now();
    for (long i = 0; i < rounds; i++) { leaf(); leaf(); leaf(); leaf(); }
    report("call-return-leaf", start, rounds * 4.0);
}

static void nested(void) {
    double start = now();
    for (long i = 0; i < rounds; i++) { node(); node(); }
    report("call-return-nested", start, rounds * 4.0);
}

static long f0(long x) { return x + 1; }
static long f1(long x) { return x ^ 3; }
static long f2(long x) { return x + 5; }
static long f3(long x) { return x ^ 7; }
static long (*volatile table[4])(long) = {f0, f1, f2, f3};

static void indirect_call(void) {
    double start = now();
    long x = 0;
    for (long i = 0; i < rounds; i++) x = table[i & 3](x);
    sink = x;
    report("indirect-call", start, rounds);
}

static void indirect_jump(void) {
    static void *const labels[] = {&&a, &&b, &&c, &&d};
    double start = now();
    long x = 0, i = 0;
next:
    if (i == rounds) goto done;
    goto *labels[i++ & 3];
a: x += 1; goto next;
b: x ^= 3; goto next;
c: x += 5; goto next;
d: x ^= 7; goto next;
done:
    sink = x;
    report("indirect-jump", start, rounds);
}

static void system_call(void) {
    double start = now();
    long n = rounds / 50 + 1;
    for (long i = 0; i < n; i++) sink = syscall(SYS_getppid);
    report("system-call", start, n);
}

static void mapping_call(void) {
    double start = now();
    long n = rounds / 500 + 1;
    for (long i = 0; i < n; i++) {
        void *p = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(p, 4096);
    }
    report("mmap-munmap", start, n * 2.0);
}

static void handler(int signal) { sink = signal; }

static void signals(void) {
    signal(SIGUSR1, handler);
    double start = now();
    long n = rounds / 500 + 1;
    for (long i = 0; i < n; i++) raise(SIGUSR1);
    report("signal", start, n);
}

static void rewrite(const char *kind, int pages) {
    unsigned char *code = mmap(0, pages * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    double start = now();
    long n = rounds / 2000 + 1;
    for (long i = 0; i < n; i++) {
        // mov eax, i; ret
        unsigned char bytes[6] = {0xb8, i, i >> 8, i >> 16, 0, 0xc3};
        unsigned char *place = code + i % pages * 4096;
        memcpy(place, bytes, sizeof bytes);
        sink = ((int (*)(void))place)();
    }
    report(kind, start, n);
}

int main(int argc, char **argv) {
    rounds = argc > 1 ? atol(argv[1]) : 1000000;
    direct();
    conditional();
    call();
    nested();
    indirect_call();
    indirect_jump();
    if (argc > 2 && !strcmp(argv[2], "hot")) return 0;
    system_call();
    mapping_call();
    signals();
    rewrite("rewrite-one-page", 1);
    rewrite("rewrite-64-pages", 64);
    return 0;
}
