// Raw clone and clone3 without libc threads: own stack, CHILD_CLEARTID, the
// stack register argument unchanged in the parent, bad sizes refused.
// build: cc -O1 -no-pie -fno-pie
// run: nondeterministic-counts
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
volatile int shared, clear = 1;
static char stack[65536] __attribute__((aligned(16)));
#define FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID)
static void wait_clear(void) { while (clear) syscall(SYS_futex, &clear, FUTEX_WAIT, 1, 0, 0, 0L); }
static void show(long result) { printf("%ld %d\n", result, errno); }
int main(void) {
    unsigned long top = (unsigned long)(stack + sizeof stack), kept;
    long tid;
    register long r10 asm("r10") = (long)&clear;
    register long r8 asm("r8") = 0;
    asm volatile("mov %2, %%rsi; syscall; test %%rax, %%rax; jnz 1f\n"
                 "addl $5, shared(%%rip); mov $60, %%eax; xor %%edi, %%edi; syscall; ud2\n1: mov %%rsi, %1"
                 : "=a"(tid), "=r"(kept) : "r"(top), "a"((long)SYS_clone), "D"((long)FLAGS), "d"(0L), "r"(r10), "r"(r8) : "rsi", "rcx", "r11", "memory");
    wait_clear();
    printf("clone %d shared %d kept %d\n", tid > 0, shared, kept == top);
    struct clone_args args;
    for (int i = 0; i < 50; i++) {
        memset(&args, 0, sizeof args);
        args.flags = FLAGS; args.child_tid = (long)&clear; args.stack = (long)stack; args.stack_size = sizeof stack;
        clear = 1;
        asm volatile("syscall; test %%rax, %%rax; jnz 1f\n lock addl $7, shared(%%rip); mov $60, %%eax; xor %%edi, %%edi; syscall; ud2\n1:"
                     : "=a"(tid) : "a"((long)SYS_clone3), "D"(&args), "S"(sizeof args) : "rcx", "rdx", "r11", "memory");
        if (tid < 0) { printf("clone3 %ld\n", tid); return 1; }
        wait_clear();
    }
    printf("clone3 shared %d\n", shared);
    show(syscall(SYS_clone3, &args, 8L));
    show(syscall(SYS_clone3, (void *)8, sizeof args));
    show(syscall(SYS_clone, CLONE_THREAD, 0L, 0L, 0L, 0L));
    return 0;
}
