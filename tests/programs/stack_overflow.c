// Endless recursion ends with SIGSEGV on the alternate stack, the fault
// address close to the stack pointer; then the default action.
// build: cc -O0
// run: signal SEGV
// run: oracle
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>
static int volatile depth;
static int down(int n) { volatile char pad[1024]; pad[0] = n; depth++; return down(n + 1) + pad[0]; }
static void handler(int sig, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    long distance = (long)info->si_addr - (long)u->uc_mcontext.gregs[REG_RSP];
    char line[100];
    int n = snprintf(line, sizeof line, "near %d deep %d\n", distance > -65536 && distance < 65536, depth > 500);
    write(1, line, n);
    signal(SIGSEGV, SIG_DFL);
}
int main(void) {
    struct rlimit core = {0, 0}, stack = {1 << 20, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &core);
    getrlimit(RLIMIT_STACK, &stack);
    stack.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_STACK, &stack);
    stack_t alt = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&alt, 0);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, 0);
    return down(0);
}
