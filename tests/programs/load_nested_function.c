// GNU nested functions put a trampoline on the stack and call through it.
// build: cc -O0
// run: oracle own-functions
#include <stdio.h>
static int apply(int (*f)(int), int n) { int s = 0; for (int i = 0; i < n; i++) s += f(i); return s; }
int main(void) {
    for (int k = 1; k < 5; k++) {
        int twice(int x) { return x * k; }
        printf("%d\n", apply(twice, 10));
    }
    return 0;
}
