// Four hundred handlers on top of each other, each raised by the one below, on
// the ordinary stack and with room on an alternate one; all return in order.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
static volatile int depth, deepest, order, limit;
static void handler(int sig, siginfo_t *info, void *context) {
    int mine = ++depth;
    if (mine > deepest) deepest = mine;
    if (mine < limit) raise(mine & 1 ? SIGUSR1 : SIGUSR2);
    order = order * 7 + mine;
    depth--;
}
int main(void) {
    stack_t s = {.ss_sp = malloc(8 << 20), .ss_size = 8 << 20};
    sigaltstack(&s, 0);
    for (int alternate = 0; alternate < 2; alternate++) {
        struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER | (alternate ? SA_ONSTACK : 0)};
        sigaction(SIGUSR1, &action, 0);
        sigaction(SIGUSR2, &action, 0);
        limit = 400;
        deepest = order = 0;
        raise(SIGUSR1);
        printf("%d: deepest %d order %08x\n", alternate, deepest, (unsigned)order);
    }
    return 0;
}
