// Direct and indirect tail calls, mutual ones too.
// build: cc -O2 -fno-inline
// run: oracle
#include <stdio.h>
static unsigned ping(unsigned n, unsigned x);
static unsigned pong(unsigned n, unsigned x) { return n ? ping(n - 1, x * 3) : x; }
static unsigned ping(unsigned n, unsigned x) { return n ? pong(n - 1, x + 7) : x; }
static unsigned leaf(unsigned n, unsigned x) { return n ^ x; }
static unsigned (*volatile target)(unsigned, unsigned) = leaf;
static unsigned through(unsigned n, unsigned x) { return target(n + 1, x); }
int main(int argc, char **argv) {
    printf("%u\n", ping(100, 1));
    for (int i = 0; i < 10; i++) printf("%u\n", through(i, i * 5));
    return 0;
}
