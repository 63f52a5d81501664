// What contexts cost with all that they called: recursion of one function, of two and of three,
// the same function as caller and as callee, two threads, a handler in the middle of recursion
// that calls what it interrupted. Without a C library, so every instruction is the same each time.
// build: cc -O1 -nostdlib -static -fno-builtin -fno-stack-protector -fno-optimize-sibling-calls -fno-inline
// run: exit 224
// run: oracle
// run: no-blocks its restorer is no function, so nobody's: the definition has it below the signal's root
static volatile unsigned done;
static long call(long number, long a, long b, long c, long d) {
    long result;
    register long r10 asm("r10") = d;
    asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return result;
}
static void spin(unsigned n) { asm volatile("1: dec %0\n jnz 1b" : "+r"(n)); }
static unsigned leaf(unsigned n) { spin(n + 1); done++; return n * 3; }
static unsigned fib(unsigned n) { return n < 2 ? leaf(n) : fib(n - 1) + fib(n - 2); }
static unsigned odd(unsigned n);
static unsigned even(unsigned n) { return n ? odd(n - 1) + leaf(n) : 1; }
static unsigned odd(unsigned n) { return n ? even(n - 1) + 3 : leaf(2); }
static unsigned third(unsigned n);
static unsigned first(unsigned n) { return n ? third(n - 1) + leaf(1) : fib(3); }
static unsigned second(unsigned n) { return n ? first(n - 1) + even(2) : 2; }
static unsigned third(unsigned n) { return n ? second(n - 1) + first(n - 1) : leaf(5); }
static void interrupt(unsigned n, int signal) { if (n) interrupt(n - 1, signal); else call(200, call(186, 0, 0, 0, 0), signal, 0, 0); odd(2); }
static void handler(int signal) { even(3); interrupt(1, 12); }
static void other(int signal) { odd(4); }
asm("restore: mov $15, %eax\n syscall");
extern void restore(void);
static void on(int number, void (*handler)(int)) {
    struct { void (*handler)(int); unsigned long flags; void (*restorer)(void); unsigned long mask; } action = {handler, 0x04000000, restore, 0};
    call(13, number, (long)&action, 0, 8);
}
static void worker(unsigned n) { even(n); first(n); }
static unsigned long stack[2][1024];
static volatile int waited[2];
asm("start_thread: push %r12\n push %r13\n mov $56, %eax\n mov %rcx, %r10\n mov %r8, %r12\n mov %r9, %r13\n xor %r8d, %r8d\n syscall\n"
    "test %eax, %eax\n jnz 1f\n mov %r13, %rdi\n call *%r12\n mov $60, %eax\n xor %edi, %edi\n syscall\n1: pop %r13\n pop %r12\n ret");
extern int start_thread(long flags, void *stack, volatile int *parent, volatile int *child, void (*entry)(unsigned), long n);
static void in_threads(void) {
    for (long at = 0; at < 2; at++) {
        int thread = start_thread(0x350f00, stack[at] + 1000, &waited[at], &waited[at], worker, at + 4);
        call(202, (long)&waited[at], 0, thread, 0);
    }
}
__attribute__((used)) static void work(void) {
    on(10, handler);
    on(12, other);
    unsigned sum = fib(6) + even(7) + first(5);
    interrupt(3, 10);
    in_threads();
    call(231, (sum + done) & 255, 0, 0, 0);
}
asm(".globl _start\n_start: xor %ebp, %ebp\n and $-16, %rsp\n call work");
