// Loops whose branch back lies before their head, of every length up to the longest superblock:
// the last turn leaves where the branch falls through.
// build: cc -O1 -fcf-protection=none
// run: oracle own-functions
#include <stdio.h>
#define LOOP(n) do { long turns = 0, left = 7; \
    asm volatile("2: test %1, %1\n jne 1f\n jmp 3f\n 1: .rept " #n "\n nop\n .endr\n add $1, %0\n dec %1\n jmp 2b\n 3:" \
        : "+r"(turns), "+r"(left) : : "cc"); \
    sum = sum * 3 + turns; if (turns != 7 || left) printf("%d: %ld %ld\n", n, turns, left); } while (0)
#define FIVE(n) LOOP(n); LOOP(n + 1); LOOP(n + 2); LOOP(n + 3); LOOP(n + 4)
int main(void) {
    unsigned long sum = 0;
    FIVE(0); FIVE(5); FIVE(10); FIVE(15); FIVE(20); FIVE(25); FIVE(30); FIVE(35); FIVE(40); FIVE(45);
    FIVE(80); FIVE(85); FIVE(90);
    printf("%lu\n", sum);
    return 0;
}
