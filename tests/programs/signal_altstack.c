// sigaltstack: handlers run on it, nested ones stay on it, SS_ONSTACK is
// reported, changing it there is EPERM, too small is ENOMEM, AUTODISARM.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif
static char *alt;
static int inside(void *p) { return (char *)p >= alt && (char *)p < alt + 65536; }
static void handler(int sig, siginfo_t *info, void *context) {
    int local;
    stack_t now, other;
    sigaltstack(0, &now);
    other = now, other.ss_flags = 0;
    int r = now.ss_flags == SS_ONSTACK ? sigaltstack(&other, 0) : 0, e = r ? errno : 0;
    ucontext_t *u = context;
    printf("signal %d on alt %d flags %x change %d %s uc_stack %d flags %x aligned %d\n", sig, inside(&local), now.ss_flags, r, e == EPERM ? "EPERM" : "-",
        u->uc_stack.ss_sp == alt, u->uc_stack.ss_flags, (unsigned long)__builtin_frame_address(0) % 16 == 0);
    if (sig == SIGUSR1) raise(SIGUSR2);
}
int main(void) {
    alt = malloc(65536);
    stack_t stack = {.ss_sp = alt, .ss_size = 65536}, old, small = {.ss_sp = alt, .ss_size = 1000};
    printf("first %d flags %x\n", sigaltstack(0, &old), old.ss_flags);
    printf("small %d %d\n", sigaltstack(&small, 0), errno == ENOMEM);
    stack.ss_flags = 77;
    printf("bad flags %d %d\n", sigaltstack(&stack, 0), errno == EINVAL);
    stack.ss_flags = 0;
    sigaltstack(&stack, 0);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGUSR1, &action, 0);
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR2, &action, 0);
    raise(SIGUSR1);
    raise(SIGUSR2);
    sigaltstack(0, &old);
    printf("after %x\n", old.ss_flags);
    stack.ss_flags = SS_AUTODISARM;
    printf("autodisarm %d\n", sigaltstack(&stack, 0));
    raise(SIGUSR1);
    sigaltstack(0, &old);
    printf("after %x %d\n", old.ss_flags, old.ss_sp == alt);
    return 0;
}
