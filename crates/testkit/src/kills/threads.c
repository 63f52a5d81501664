/* Three threads and a child process; what each executes depends on nothing but this text.
   One computes nearly without a pause, one sleeps now and then, one gets signals that it raises;
   the child is forked while they run. Nobody waits for another in a loop. */
#define NR_write 1
#define NR_rt_sigaction 13
#define NR_nanosleep 35
#define NR_fork 57
#define NR_exit 60
#define NR_wait4 61
#define NR_tgkill 234
#define NR_getpid 39
#define NR_gettid 186
#define NR_exit_group 231

static long call(long n, long a, long b, long c, long d) {
    long r;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return r;
}

static unsigned one(unsigned x) { return x * 3 + 1; }
static unsigned two(unsigned x) { return x % 2 ? x / 3 : x ^ 77; }
static unsigned (*volatile table[2])(unsigned) = {one, two};

static unsigned work(unsigned x, int rounds) {
    for (int i = 0; i < rounds; i++) {
        x = x * 1664525 + 1013904223;
        x ^= table[x >> 31](x);
        if (x & 64) x++;
    }
    return x;
}

static void rest(void) {
    long pause[2] = {0, 2000000};
    call(NR_nanosleep, (long)pause, 0, 0, 0);
}

static volatile unsigned handled;
static void handler(int signal) { handled = work(handled + signal, 20); }
__asm__("restorer: mov $15, %eax\n syscall\n");
extern void restorer(void);

static void sleeper(void) {
    unsigned x = 3;
    for (int i = 0; i < ROUNDS; i++) {
        x = work(x, 750 * SCALE);
        rest();
    }
}

static void busy(void) {
    unsigned x = 5;
    for (int i = 0; i < ROUNDS; i++) {
        x = work(x, 2000 * SCALE);
        if (i % 2) rest();
    }
}

static void signalled(void) {
    long action[4] = {(long)handler, 0x04000000, (long)restorer, 0};
    call(NR_rt_sigaction, 10, (long)action, 0, 8);
    long pid = call(NR_getpid, 0, 0, 0, 0), tid = call(NR_gettid, 0, 0, 0, 0);
    unsigned x = 9;
    for (int i = 0; i < ROUNDS; i++) {
        x = work(x, 250 * SCALE);
        call(NR_tgkill, pid, tid, 10, 0);
        if (i % 4 == 0) rest();
    }
}

static char stacks[2][65536] __attribute__((aligned(64)));

/* clone with everything shared: in the new thread, `work` on that stack, and its end. */
long start(unsigned long flags, void *stack, void (*work)(void));
__asm__("start: mov %rdx, %r8\n"
        "  xor %edx, %edx\n xor %r10d, %r10d\n"
        "  mov $56, %eax\n syscall\n"
        "  test %eax, %eax\n jne 1f\n"
        "  call *%r8\n"
        "  mov $60, %eax\n xor %edi, %edi\n syscall\n"
        "1: ret\n");

__attribute__((force_align_arg_pointer)) void _start(void) {
    const unsigned long shared = 0x50f00; /* VM FS FILES SIGHAND THREAD SYSVSEM */
    start(shared, stacks[0] + sizeof stacks[0], sleeper);
    start(shared, stacks[1] + sizeof stacks[1], busy);
    long child = call(NR_fork, 0, 0, 0, 0);
    if (child == 0) {
        work(11, 5000 * SCALE);
        for (int i = 0; i < ROUNDS / 2; i++) {
            work(i, 500 * SCALE);
            rest();
        }
        call(NR_exit_group, 0, 0, 0, 0);
    }
    signalled();
    call(NR_wait4, child, 0, 0, 0);
    /* The process ends when its last thread does. */
    call(NR_write, 1, (long)"done\n", 5, 0);
    call(NR_exit, 0, 0, 0, 0);
}
