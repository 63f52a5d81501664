// xbegin goes to its fallback, some bytes away, or is no instruction: a
// processor whose TSX is disabled has no RTM in cpuid, and yet may abort
// instead of faulting. What the native run does is right. A transaction that
// runs is told as one that aborted, as it may.
// build: cc -O1
// run: oracle own-functions
#include <signal.h>
#include <setjmp.h>
#include <stdio.h>
static sigjmp_buf back;
static void illegal(int sig) { siglongjmp(back, 1); }
int main(void) {
    signal(SIGILL, illegal);
    for (int i = 0; i < 3; i++) {
        unsigned status = 0xffffffff;
        int fell = 0;
        if (sigsetjmp(back, 1)) { printf("no instruction\n"); continue; }
        asm volatile(
            "xbegin 1f\n xabort $0\n movl $1, %0\n jmp 2f\n .skip 200, 0x90\n 1: movl $2, %0\n 2:"
            : "+r"(fell), "+a"(status) : : "memory");
        printf("%d\n", fell);
    }
    return 0;
}
