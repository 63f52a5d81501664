// sigaction gives back exactly what was set: handler, every flag the kernel
// knows, restorer and mask; unknown flags are dropped as the kernel drops them.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
struct action { long handler; unsigned long flags; long restorer; unsigned long mask; };
int main(void) {
    static const int signals[] = {SIGHUP, SIGUSR1, SIGSEGV, SIGTRAP, SIGCHLD, 34, 64};
    for (int i = 0; i < 7; i++) {
        struct action a, b, c;
        int s = signals[i];
        for (int bit = 0; bit < 34; bit++) {
            a = (struct action){0x1234, 1UL << bit, 0x5678, 0x1122334455667788UL << (bit & 7)};
            long r = syscall(SYS_rt_sigaction, s, &a, 0, 8);
            memset(&b, 0x77, sizeof b);
            syscall(SYS_rt_sigaction, s, 0, &b, 8);
            if (memcmp(&a, &b, sizeof a)) printf("%d bit %d: %ld handler %lx flags %lx restorer %lx mask %lx\n", s, bit, r, b.handler, b.flags, b.restorer, b.mask ^ a.mask);
        }
        a = (struct action){(long)SIG_IGN, ~0UL, 1, ~0UL};
        syscall(SYS_rt_sigaction, s, &a, &c, 8);
        syscall(SYS_rt_sigaction, s, 0, &b, 8);
        printf("%d: handler %ld flags %lx restorer %lx mask %lx before %lx\n", s, b.handler, b.flags, b.restorer, b.mask, c.handler);
        a = (struct action){0};
        syscall(SYS_rt_sigaction, s, &a, 0, 8);
        syscall(SYS_rt_sigaction, s, 0, &b, 8);
        printf("%d: handler %ld flags %lx restorer %lx mask %lx\n", s, b.handler, b.flags, b.restorer, b.mask);
    }
    return 0;
}
