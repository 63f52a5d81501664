// Timer signals inside a long rep movsb: the copy is whole, and no handler
// sees rcx, rsi, rdi out of step.
// build: cc -O1
// run: nondeterministic-counts
// run: no-oracle a timer every 150 microseconds leaves a stepped program no time to get on
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
static char from[1 << 20], to[1 << 20];
static unsigned long site;
static volatile int ticks, wrong;
static void handler(int sig, siginfo_t *info, void *context) {
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    if ((unsigned long)g[REG_RIP] == site) {
        unsigned long done = sizeof from - g[REG_RCX];
        wrong |= g[REG_RSI] != (long)(from + done) || g[REG_RDI] != (long)(to + done);
    }
    ticks++;
}
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGALRM, &action, 0);
    for (int i = 0; i < (int)sizeof from; i++) from[i] = i * 7 + (i >> 9);
    struct itimerval it = {{0, 150}, {0, 150}}, off = {{0, 0}, {0, 0}};
    int bad = 0;
    setitimer(ITIMER_REAL, &it, 0);
    for (int i = 0; i < 600; i++) {
        memset(to, 0, sizeof to);
        unsigned long s = (unsigned long)from, d = (unsigned long)to, c = sizeof from;
        asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %3\n1: rep movsb" : "+S"(s), "+D"(d), "+c"(c), "=m"(site) : : "rax", "memory");
        bad += memcmp(from, to, sizeof from) != 0 || c != 0;
    }
    setitimer(ITIMER_REAL, &off, 0);
    printf("bad %d wrong %d ticked %d\n", bad, wrong, ticks > 0);
    return 0;
}
