// Coroutines with makecontext and swapcontext, and a hand-written stack switch.
// build: cc -O1
// run: oracle
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
static ucontext_t back, fibers[4];
static int trace[64], traced;
static void body(int id, int rounds) {
    for (int i = 0; i < rounds; i++) { trace[traced++] = id * 10 + i; swapcontext(&fibers[id], &back); }
    trace[traced++] = id * 10 + 9;
}
extern void raw_switch(void **save, void *load);
asm(".text\nraw_switch: push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15; mov %rsp, (%rdi); mov %rsi, %rsp;"
    "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret\n");
static void *main_sp, *fiber_sp;
static unsigned long total;
static unsigned long fib(int n) { if (n == 5) raw_switch(&fiber_sp, main_sp); return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static void fiber(void) { total = fib(14); for (;;) raw_switch(&fiber_sp, main_sp); }
int main(void) {
    for (int i = 0; i < 4; i++) {
        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = malloc(65536);
        fibers[i].uc_stack.ss_size = 65536;
        fibers[i].uc_link = &back;
        makecontext(&fibers[i], (void (*)(void))body, 2, i, i + 2);
    }
    for (int round = 0; round < 6; round++) for (int i = 0; i < 4; i++) if (round <= i + 2) swapcontext(&back, &fibers[i]);
    for (int i = 0; i < traced; i++) printf("%d ", trace[i]);
    void **stack = malloc(65536), **top = stack + 8000;
    *--top = 0; *--top = (void *)fiber;
    top -= 6;
    fiber_sp = top;
    int switches = 0;
    while (!total) { raw_switch(&main_sp, fiber_sp); switches++; }
    printf("\n%lu %d\n", total, switches);
    return 0;
}
