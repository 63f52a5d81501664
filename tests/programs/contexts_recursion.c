// Contexts of direct, mutual and pointer recursion, of tail calls between
// functions of one and of two callers, and of a function that returns twice.
// build: cc -O2 -fno-inline -fno-ipa-cp -static
// run: oracle
#include <stdio.h>
static unsigned fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static unsigned odd(unsigned n);
__attribute__((optimize("no-optimize-sibling-calls"))) static unsigned even(unsigned n) { return n ? odd(n - 1) + 1 : 1; }
__attribute__((optimize("no-optimize-sibling-calls"))) static unsigned odd(unsigned n) { return n ? even(n - 1) * 3 : 2; }
static unsigned leaf(unsigned n) { asm volatile(""); return n * 7; }
static unsigned hop(unsigned n) { asm volatile(""); return leaf(n + 1); }
static unsigned skip(unsigned n) { asm volatile(""); return hop(n + 2); }
static unsigned (*volatile table[])(unsigned) = {leaf, hop, skip, fib, even};
static unsigned apply(unsigned n) { unsigned s = 0; for (unsigned i = 0; i < n; i++) s += table[i % 5](i); return s; }
int main(void) {
    unsigned s = fib(9) + even(12) + odd(5) + apply(11) + skip(1);
    printf("%u\n", s);
    return 0;
}
