// Recursion 100,000 deep through two functions, returns in exact order.
// build: cc -O1 -fno-optimize-sibling-calls
// run: oracle own-functions
// run: oracle-args 200
#include <stdlib.h>
#include <stdio.h>
static unsigned odd(unsigned n);
__attribute__((noinline)) static unsigned even(unsigned n) { return n ? odd(n - 1) * 3 + 1 : 7; }
__attribute__((noinline)) static unsigned odd(unsigned n) { return n ? even(n - 1) * 5 + n : 11; }
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 100000;
    for (int i = 0; i < 5; i++) printf("%u\n", even(rounds + i));
    return 0;
}
