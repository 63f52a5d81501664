// Threads whose first instruction is the exit call, three thousand, and
// threads whose creator exits before they begin.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: oracle own-functions
// run: oracle-args 60
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile int clear;
static atomic_int ran;
static char stack[4096] __attribute__((aligned(16)));
#define FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID)
static void *leaf(void *arg) { ran++; return 0; }
static void *creator(void *arg) { pthread_t t; pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED); if (!pthread_create(&t, &a, leaf, 0)) return (void *)1; return 0; }
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 3000;
    int made = 0;
    for (int i = 0; i < rounds; i++) {
        long tid;
        clear = 1;
        register long r10 asm("r10") = (long)&clear;
        register long r8 asm("r8") = 0;
        asm volatile("syscall; test %%rax, %%rax; jnz 1f; mov $60, %%eax; xor %%edi, %%edi; syscall; ud2; 1:"
                     : "=a"(tid) : "a"((long)SYS_clone), "D"((long)FLAGS), "S"(stack + sizeof stack), "d"(0L), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
        made += tid > 0;
        while (clear) syscall(SYS_futex, &clear, FUTEX_WAIT, 1, 0, 0, 0L);
    }
    printf("%d\n", made);
    long created = 0;
    for (int i = 0; i < rounds / 30; i++) { pthread_t t; void *r; pthread_create(&t, 0, creator, 0); pthread_join(t, &r); created += (long)r; }
    while (ran < created) sched_yield();
    printf("%ld %d\n", created, ran);
    return 0;
}
