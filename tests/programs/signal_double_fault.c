// A fault inside the handler of the same fault kills; with SA_NODEFER it
// nests until the stack is left by siglongjmp.
// build: cc -O1
// run: signal SEGV
// run: oracle
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
static sigjmp_buf back;
static volatile int depth;
static void nest(int sig) { if (++depth == 20) siglongjmp(back, 1); *(volatile int *)8 = 1; }
static void again(int sig) { *(volatile int *)8 = 1; }
int main(void) {
    struct rlimit core = {0, 0};
    setrlimit(RLIMIT_CORE, &core);
    struct sigaction action = {.sa_handler = nest, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, 0);
    if (!sigsetjmp(back, 1)) *(volatile int *)8 = 1;
    printf("depth %d\n", depth);
    fflush(stdout);
    signal(SIGSEGV, again);
    *(volatile int *)8 = 1;
    return 0;
}
