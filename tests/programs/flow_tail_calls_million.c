// Mutual tail calls a million deep need no stack, natively or otherwise.
// build: cc -O2 -fno-inline
// run: oracle own-functions
// run: oracle-args 500
#include <stdlib.h>
#include <stdio.h>
static unsigned ping(unsigned n, unsigned x);
static unsigned pong(unsigned n, unsigned x) { return n ? ping(n - 1, x * 3) : x; }
static unsigned ping(unsigned n, unsigned x) { return n ? pong(n - 1, x + 7) : x; }
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000000; printf("%u\n", ping(rounds, 1)); return 0; }
