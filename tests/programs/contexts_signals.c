// Contexts of signal handlers: a root per signal, nested ones, on another
// stack, left by sigreturn and by siglongjmp, and calls going on after.
// build: cc -O1 -fno-inline -static
// run: oracle
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static sigjmp_buf back;
static char stack[65536];
static volatile int n;
static void inner_work(void) { n++; }
static void work(void) { inner_work(); n += 2; }
static void on_usr2(int sig) { work(); }
static void on_usr1(int sig) { work(); raise(SIGUSR2); inner_work(); }
static void on_segv(int sig) { work(); siglongjmp(back, 1); }
static void crash(int depth) { if (depth) crash(depth - 1); else *(volatile int *)8 = 1; n += 100; }
static void on_ill(int sig, siginfo_t *info, void *context) { work(); ((unsigned long *)context)[5 + 16] += 2; }
static void illegal(void) { asm volatile("ud2"); inner_work(); }
int main(void) {
    stack_t alt = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alt, 0);
    struct sigaction action = {.sa_handler = on_usr1};
    sigaction(SIGUSR1, &action, 0);
    action.sa_handler = on_usr2;
    sigaction(SIGUSR2, &action, 0);
    action.sa_handler = on_segv;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGSEGV, &action, 0);
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = on_ill;
    sigaction(SIGILL, &action, 0);
    for (int i = 0; i < 3; i++) {
        raise(SIGUSR1);
        if (!sigsetjmp(back, 1)) crash(i);
        work();
        illegal();
    }
    printf("%d\n", n);
    return 0;
}
