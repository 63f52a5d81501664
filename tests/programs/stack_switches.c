// Control on many stacks: coroutines on memory that is used again, on a part of a frame, by sigsetjmp and
// siglongjmp; a function that calls on another stack, from which control leaves for good; a handler
// on a stack of its own that jumps back.
// build: cc -O1
// run: oracle
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#define N __attribute__((noinline, noclone))
static volatile long sum;
N static long leaf(long x) { return x * 3 + 1; }

// Stacks that are freed and used again, by others and at other sizes.
static ucontext_t back, there;
N static void produce(int rounds) { for (int i = 0; i < rounds; i++) { sum += leaf(i); swapcontext(&there, &back); } }
static void first(void) { produce(3); }
N static void consume(int rounds) { for (int i = 0; i < rounds; i++) { sum -= leaf(i + 1); swapcontext(&there, &back); } }
static void second(void) { consume(2); }
N static void run_on(void *memory, size_t size, void (*what)(void), int times) {
    getcontext(&there);
    there.uc_stack.ss_sp = memory, there.uc_stack.ss_size = size, there.uc_link = &back;
    makecontext(&there, what, 0);
    for (int i = 0; i < times; i++) swapcontext(&back, &there);
}
N static void in_own_frame(void) { char memory[32768]; run_on(memory, sizeof memory, first, 4); }

// As qemu's coroutines: begun once by swapcontext, then sigsetjmp and siglongjmp.
static sigjmp_buf outer, inner;
N static void yield(void) { if (!sigsetjmp(inner, 0)) siglongjmp(outer, 1); }
N static void work(int n) { for (int i = 0; i < n; i++) { sum += leaf(i); yield(); } }
static void coroutine(void) { if (!sigsetjmp(inner, 0)) siglongjmp(outer, 1); work(5); siglongjmp(outer, 2); }
N static void enter(void) { if (!sigsetjmp(outer, 0)) siglongjmp(inner, 1); }
N static void begin(void *memory) {
    getcontext(&there);
    there.uc_stack.ss_sp = memory, there.uc_stack.ss_size = 65536, there.uc_link = 0;
    makecontext(&there, coroutine, 0);
    if (!sigsetjmp(outer, 0)) swapcontext(&back, &there);
}

// Calls on another stack, as Go's systemstack and mcall do.
extern long call_on(void *top, long (*what)(long), long argument);
extern void leave_on(void *top, void (*what)(void *), void **save);
extern void come_back(void *sp);
asm(".text\n"
    ".type call_on, @function\ncall_on: push %rbx; mov %rsp, %rbx; mov %rdi, %rsp; mov %rdx, %rdi; call *%rsi; mov %rbx, %rsp; pop %rbx; ret\n.size call_on, .-call_on\n"
    ".type leave_on, @function\nleave_on: push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; mov %rsp, (%rdx); mov (%rdx), %rax; mov %rdi, %rsp; mov %rax, %rdi; call *%rsi; hlt\n.size leave_on, .-leave_on\n"
    ".type come_back, @function\ncome_back: mov %rdi, %rsp; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n.size come_back, .-come_back\n");
N static long on_other(long x) { return leaf(x) + leaf(x + 1); }
static void *parked;
N static void schedule(void *sp) { sum += leaf(7); come_back(sp); }
N static void park(void *top) { leave_on(top, schedule, &parked); }

static sigjmp_buf escape;
static void handler(int number) { sum += leaf(number); siglongjmp(escape, 1); }
N static void raises(int n) { if (n) raises(n - 1); else raise(SIGUSR1); }

int main(void) {
    char *memory = malloc(1 << 18);
    run_on(memory, 65536, first, 4);
    run_on(memory, 65536, second, 3);
    run_on(memory + 4096, 32768, first, 2);
    run_on(memory, 65536, second, 3);
    run_on(memory + 65536, 65536, first, 3);
    in_own_frame();
    begin(memory + (1 << 17));
    for (int i = 0; i < 6; i++) enter();
    void *top = memory + (1 << 18) - 64;
    for (int i = 0; i < 3; i++) { sum += call_on(top, on_other, i); park(top); }
    stack_t alternate = {.ss_sp = memory, .ss_size = 65536};
    sigaltstack(&alternate, 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, 0);
    for (int i = 0; i < 3; i++) if (!sigsetjmp(escape, 1)) raises(i);
    printf("%ld\n", sum);
    return 0;
}
