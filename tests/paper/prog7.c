// A function left by longjmp and then called again: two calls from main, no
// recursion; written anew after listing 5.15 of paper 000.
// build: cc -g -O0
#include <setjmp.h>
#include <stdio.h>

static jmp_buf start;

void testJump(int jump) {
    if (jump)
        longjmp(start, 1);
    printf("no jump\n");
}

int main(void) {
    if (setjmp(start) == 0) {
        testJump(1);
        printf("never reached\n");
    } else {
        testJump(0);
    }
    return 0;
}
