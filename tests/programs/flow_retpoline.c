// Retpolines, inline and as thunks: calls whose return address is replaced.
// build: cc -O2 -fno-inline -fcf-protection=none -mindirect-branch=thunk -mfunction-return=thunk
// run: oracle own-functions
// run: oracle-args 500
#include <stdlib.h>
#include <stdio.h>
static int add(int x) { return x + 5; }
static int mul(int x) { return x * 3; }
static int neg(int x) { return -x; }
static int (*volatile table[])(int) = {add, mul, neg, mul};
static int pick(int s, int x) { switch (s) { case 0: return x; case 1: return x + 1; case 2: return x ^ 2; case 3: return x * 3; case 4: return x - 4; case 5: return x | 5; default: return 0; } }
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 300000;
    int x = 1;
    for (int i = 0; i < rounds; i++) x = pick(i % 7, table[i & 3](x) & 0xffffff);
    printf("%d\n", x);
    return 0;
}
