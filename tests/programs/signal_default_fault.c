// Death by a null pointer: SIGSEGV, no core because the limit is 0; output
// flushed before stays.
// build: cc -O1
// run: signal SEGV
// run: oracle own-functions
#include <stdio.h>
#include <sys/resource.h>
int main(void) {
    struct rlimit core = {0, 0};
    setrlimit(RLIMIT_CORE, &core);
    printf("before\n");
    fflush(stdout);
    *(volatile int *)0 = 1;
    return 0;
}
