// Loops, recursion, indirect calls, string instructions and a system call per
// round, without a C library: the same instructions at any address, so the
// exact count can be compared (a C library's string functions take other paths
// at other alignments of arguments and environment).
// build: cc -O2 -nostdlib -static -fno-builtin -fno-stack-protector
// run: exit 4
// run: oracle
static unsigned char buffer[4096], copy[4096];
static long call1(long number, long argument) {
    long result;
    asm volatile("syscall" : "=a"(result) : "a"(number), "D"(argument) : "rcx", "r11", "memory");
    return result;
}
static __attribute__((noinline)) unsigned fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static __attribute__((noinline)) unsigned twist(unsigned x) { return x << 7 | x >> 25; }
static __attribute__((noinline)) unsigned grow(unsigned x) { return x * 3 + 1; }
static unsigned (*volatile table[2])(unsigned) = {twist, grow};
static __attribute__((noinline)) unsigned mix(unsigned n) {
    unsigned hash = 0;
    for (unsigned i = 0; i < n; i++) {
        buffer[i & 4095] ^= i * 7;
        hash = hash * 31 + buffer[(i * 13) & 4095];
        if (hash & 64) hash ^= hash >> 3;
        if (!(i & 63)) hash = table[hash & 1](hash);
    }
    void *to = copy, *from = buffer;
    unsigned long left = n;
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
    asm volatile("1: loop 1b" : "+c"(n));
    return hash + copy[17];
}
void _start(void) {
    unsigned hash = fib(12);
    for (int i = 0; i < 8; i++) {
        hash += mix(300 + i);
        call1(39, 0);
    }
    call1(60, hash & 63);
}
