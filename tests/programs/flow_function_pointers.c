// One indirect call site with 256 targets, and 256 call sites of one target.
// build: cc -O1
// run: oracle own-functions
// run: oracle-args 2000
#include <stdlib.h>
#include <stdio.h>
#define F1(n) __attribute__((noinline)) static unsigned f##n(unsigned x) { return x * 2654435761u + 0x##n; }
#define R16(M, p) M(p##0) M(p##1) M(p##2) M(p##3) M(p##4) M(p##5) M(p##6) M(p##7) M(p##8) M(p##9) M(p##a) M(p##b) M(p##c) M(p##d) M(p##e) M(p##f)
#define R256(M) R16(M, 0) R16(M, 1) R16(M, 2) R16(M, 3) R16(M, 4) R16(M, 5) R16(M, 6) R16(M, 7) R16(M, 8) R16(M, 9) R16(M, a) R16(M, b) R16(M, c) R16(M, d) R16(M, e) R16(M, f)
R256(F1)
#define P(n) f##n,
static unsigned (*const table[256])(unsigned) = {R256(P)};
__attribute__((noinline)) static unsigned shared(unsigned x) { return x ^ x >> 3; }
static unsigned (*volatile pointer)(unsigned) = shared;
#define CALL(n) x = pointer(x + 0x##n);
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000000;
    unsigned x = 7;
    for (int i = 0; i < rounds; i++) x = table[x >> 13 & 255](x);
    printf("%u\n", x);
    for (int i = 0; i < rounds / 500; i++) { R256(CALL) }
    printf("%u\n", x);
    return 0;
}
