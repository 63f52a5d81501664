// Mutual tail calls a million deep need no stack, natively or otherwise.
// build: cc -O2 -fno-inline
#include <stdio.h>
static unsigned ping(unsigned n, unsigned x);
static unsigned pong(unsigned n, unsigned x) { return n ? ping(n - 1, x * 3) : x; }
static unsigned ping(unsigned n, unsigned x) { return n ? pong(n - 1, x + 7) : x; }
int main(void) { printf("%u\n", ping(1000000, 1)); return 0; }
