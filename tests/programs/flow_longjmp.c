// longjmp out of deep recursion, into live frames only, two buffers nested,
// and setjmp returning many times; registers saved by setjmp are restored.
// build: cc -O1
// run: oracle
// run: oracle-args 40
#include <stdlib.h>
#include <setjmp.h>
#include <stdio.h>
static jmp_buf outer, inner;
__attribute__((noinline)) static int dive(int n, int target) {
    if (n == 0) { if (target) longjmp(inner, target); longjmp(outer, 9); }
    return dive(n - 1, target) + 1;
}
int main(int argc, char **argv) {
    int limit = argc > 1 ? atoi(argv[1]) : 2000;
    volatile int rounds = 0, sum = 0;
    int how = setjmp(outer);
    if (how == 9) { printf("outer after %d rounds, sum %d\n", rounds, sum); return 0; }
    for (;;) {
        int r = setjmp(inner);
        sum += r;
        if (++rounds < limit) dive(rounds % 300, rounds % 17 + 1);
        dive(50, 0);
    }
}
