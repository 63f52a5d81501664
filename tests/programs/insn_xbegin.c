// xbegin, where the CPU has it, either runs or aborts to its target; xtest
// says the truth. Without it the instruction is illegal, and says so.
// build: cc -O1
// run: oracle own-functions
#include <signal.h>
#include <setjmp.h>
#include <stdio.h>
static sigjmp_buf back;
static void illegal(int sig) { siglongjmp(back, 1); }
int main(void) {
    signal(SIGILL, illegal);
    unsigned status = 0xffffffff;
    if (sigsetjmp(back, 1)) { printf("consistent\n"); return 0; }
    volatile int inside = 0;
    for (int i = 0; i < 10; i++) {
        status = ~0u;
        asm volatile("xbegin 1f\n1:" : "+a"(status) : : "memory");
        if (status == ~0u) { inside = 1; asm volatile("xend" : : : "memory"); break; }
    }
    printf("consistent\n");
    return 0;
}
