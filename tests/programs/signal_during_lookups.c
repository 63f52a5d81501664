// A timer while a program walks a tree of calls in far more contexts than a
// thread remembers, all of them met before: each call is looked up, and none
// needs the engine. Every signal comes in time all the same.
// build: cc -O1
// run: nondeterministic-counts
// run: timeout 60
// run: no-oracle it is stopped by a timer
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
enum { SIGNALS = 300 };
static volatile int ticks;
static volatile unsigned long leaves;
static void handler(int sig) {
    (void)sig;
    ticks++;
}
#define STEP(name) static __attribute__((noinline)) void name(int depth);
STEP(a) STEP(b) STEP(c) STEP(d) STEP(e) STEP(f) STEP(g) STEP(h)
static void walk(int depth) {
    if (depth == 0 || ticks >= SIGNALS) {
        leaves = leaves + 1;
        return;
    }
    a(depth - 1), b(depth - 1), c(depth - 1), d(depth - 1);
    e(depth - 1), f(depth - 1), g(depth - 1), h(depth - 1);
}
#undef STEP
#define STEP(name) static __attribute__((noinline)) void name(int depth) { walk(depth); leaves = leaves + 1; }
STEP(a) STEP(b) STEP(c) STEP(d) STEP(e) STEP(f) STEP(g) STEP(h)
int main(void) {
    signal(SIGALRM, handler);
    walk(6);
    printf("%lu\n", leaves);
    struct itimerval every = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &every, 0);
    while (ticks < SIGNALS) walk(6);
    every = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, 0);
    printf("all signals came\n");
    return 0;
}
