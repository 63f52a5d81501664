// int 0x80 from 64-bit code uses the 32-bit numbers: getpid is 20, and a
// pointer above 4 GB is cut off. A kernel without it faults; both are said.
// build: cc -O1
// run: oracle own-functions
#include <stdio.h>
#include <signal.h>
#include <setjmp.h>
#include <unistd.h>
static sigjmp_buf back;
static void handler(int sig) { siglongjmp(back, sig); }
int main(void) {
    signal(SIGSEGV, handler);
    int sig = sigsetjmp(back, 1);
    if (sig) { printf("signal %d\n", sig); return 0; }
    long pid;
    asm volatile("int $0x80" : "=a"(pid) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
    printf("getpid %d\n", pid == getpid());
    return 0;
}
