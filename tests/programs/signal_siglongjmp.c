// siglongjmp out of handlers, from the alternate stack too, many times; the
// mask comes back, and the next signal is delivered.
// build: cc -O1
// run: oracle own-functions
// run: oracle-args 20
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
static sigjmp_buf back;
static volatile int count;
static void handler(int sig) { count++; siglongjmp(back, sig); }
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 3000;
    stack_t alt = {.ss_sp = malloc(65536), .ss_size = 65536}, now;
    sigaltstack(&alt, 0);
    struct sigaction plain = {.sa_handler = handler}, onstack = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &onstack, 0);
    sigaction(SIGFPE, &plain, 0);
    sigaction(SIGUSR1, &onstack, 0);
    volatile int sum = 0;
    for (volatile int i = 0; i < rounds; i++) {
        int sig = sigsetjmp(back, 1);
        if (sig) { sum += sig; continue; }
        if (i % 3 == 0) *(volatile int *)8 = 1;
        else if (i % 3 == 1) { volatile int zero = 0; sum = 1 / zero; }
        else raise(SIGUSR1);
    }
    sigset_t set;
    sigprocmask(SIG_BLOCK, 0, &set);
    sigaltstack(0, &now);
    printf("%d %d blocked %d flags %d\n", count, sum, sigismember(&set, SIGSEGV) + sigismember(&set, SIGUSR1), now.ss_flags);
    return 0;
}
