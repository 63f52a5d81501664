// As prog7, with a variadic function whose second call has so many arguments
// that the stack pointer is lower than at the first; written anew after
// listing 5.18 of paper 000, with more arguments because six of them travel
// in registers here.
// build: cc -g -O0
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

static jmp_buf start;

void testJump(int value, ...) {
    if (value)
        longjmp(start, 1);
    va_list rest;
    va_start(rest, value);
    while (value != -1) {
        value = va_arg(rest, int);
        printf("argument %d\n", value);
    }
    va_end(rest);
}

int main(void) {
    if (setjmp(start) == 0) {
        testJump(1);
        printf("never reached\n");
    } else {
        testJump(0, 25, 100, 386, 4, 5, 6, 7, 8, 9, -1);
    }
    return 0;
}
