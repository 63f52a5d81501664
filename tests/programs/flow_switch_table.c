// A dense switch compiled to a jump table, run with mixed selectors.
// build: cc -O2 -fno-inline
// run: oracle own-functions
// run: oracle-args 2000
#include <stdlib.h>
#include <stdio.h>
static unsigned step(unsigned s, unsigned x) {
    switch (s % 40) {
#define C(n) case n: return x * (n + 3) ^ (x >> (n % 7 + 1)) ^ n;
#define C4(n) C(n) C(n + 1) C(n + 2) C(n + 3)
        C4(0) C4(4) C4(8) C4(12) C4(16) C4(20) C4(24) C4(28) C4(32)
        case 36: x ^= 99; /* fall through */
        case 37: x += 7; /* fall through */
        default: return x + s;
    }
}
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 2000000;
    unsigned x = 1;
    for (unsigned i = 0; i < (unsigned)rounds; i++) x = step(x >> 7 ^ i, x);
    printf("%u\n", x);
    return 0;
}
