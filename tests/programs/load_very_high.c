// A program linked into the terabytes, where nothing is expected, without a C
// library: calls, jump tables, data, and memory mapped anywhere.
// build: cc -O2 -nostdlib -static -no-pie -fno-pie -mcmodel=large -fno-stack-protector -Wl,-Ttext-segment=0x7e0000000000
// run: exit 44
// run: oracle
static long call(long n, long a, long b, long c, long d, long e, long f) {
    long r;
    register long r10 asm("r10") = d, r8 asm("r8") = e, r9 asm("r9") = f;
    asm volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return r;
}
static long table[4] = {1, 2, 3, 4};
static __attribute__((noinline)) long choose(long x) {
    switch (x & 7) { case 0: return x + 1; case 1: return x * 3; case 2: return -x; case 3: return x ^ 99; case 4: return table[1]; case 5: return x << 2; case 6: return x - 5; default: return 7; }
}
static long (*volatile pointer)(long) = choose;
__attribute__((force_align_arg_pointer)) void _start(void) {
    long sum = 0;
    for (long i = 0; i < 200; i++) sum = sum * 5 + choose(i) + pointer(i + 1) + table[i & 3];
    char *page = (char *)call(9, 0, 8192, 3, 0x22, -1, 0);
    page[4096] = 5;
    call(1, 1, (long)(sum % 97 == 0 ? "zero\n" : "some\n"), 5, 0, 0, 0);
    call(231, ((unsigned long)&table >> 40 == 0x7e ? 40 : 0) + page[4096] - 1 + (sum == 0), 0, 0, 0, 0, 0);
}
