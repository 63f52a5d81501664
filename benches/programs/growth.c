// A program with as many calling contexts as its argument says: a binary tree of
// calls, numbered as a heap, in which no two calls have the same path. A function
// never calls itself, because recursion of one function is one context.
//
//     growth CONTEXTS [TIMES]
#include <stdio.h>
#include <stdlib.h>

static unsigned long contexts;
static volatile unsigned long calls;

static void left_even(unsigned long n);
static void right_even(unsigned long n);
static void left_odd(unsigned long n);
static void right_odd(unsigned long n);

#define FUNCTION(name, left, right)                          \
    __attribute__((noinline)) static void name(unsigned long n) { \
        calls++;                                             \
        if (2 * n <= contexts) left(2 * n);                  \
        if (2 * n + 1 <= contexts) right(2 * n + 1);         \
        __asm__ volatile("");                                \
    }
FUNCTION(left_even, left_odd, right_odd)
FUNCTION(right_even, left_odd, right_odd)
FUNCTION(left_odd, left_even, right_even)
FUNCTION(right_odd, left_even, right_even)

int main(int argc, char **argv) {
    contexts = argc > 1 ? strtoul(argv[1], 0, 10) : 1000;
    unsigned long times = argc > 2 ? strtoul(argv[2], 0, 10) : 1;
    for (unsigned long i = 0; i < times; i++) left_even(1);
    printf("%lu\n", calls);
    return calls != contexts * times;
}
