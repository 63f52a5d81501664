// One thread patches the target of a call, aligned and atomically, while
// three others execute it; every result is one of the two targets', and the
// last patch is seen by all.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: oracle own-functions
// run: oracle-args 5
#include <stdlib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static unsigned char *page;
static atomic_int stop, wrong;
static void *execute(void *arg) {
    int (*f)(void) = (int (*)(void))(void *)page;
    while (!stop) { int r = f(); if (r != 11 && r != 22) wrong++; }
    int r;
    asm volatile("cpuid" : "=a"(r) : "a"(0) : "rbx", "rcx", "rdx");
    return (void *)(long)f();
}
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 400;
    page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static const unsigned char one[] = {0xb8, 11, 0, 0, 0, 0xc3}, two[] = {0xb8, 22, 0, 0, 0, 0xc3};
    memcpy(page + 64, one, 6);
    memcpy(page + 128, two, 6);
    // 3 nops, then call rel32 with an aligned displacement at 4; ret
    static const unsigned char call[] = {0x90, 0x90, 0x90, 0xe8, 56, 0, 0, 0, 0xc3};
    memcpy(page, call, 9);
    atomic_int *slot = (atomic_int *)(page + 4);
    pthread_t t[3];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, execute, 0);
    for (int i = 0; i < rounds; i++) { *slot = i & 1 ? 56 : 120; usleep(100); }
    *slot = 120;
    syscall(SYS_membarrier, 0, 0, 0);
    stop = 1;
    for (int i = 0; i < 3; i++) { void *r; pthread_join(t[i], &r); printf("%ld\n", (long)r); }
    printf("wrong %d\n", wrong);
    return 0;
}
