// Signal calls with odd arguments: null and unreadable sets, wrong sizes, bad
// numbers and clocks; every error is the kernel's, and nothing else changes.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static void show(const char *what, long r) { printf("%s %ld %s\n", what, r, r < 0 ? strerrorname_np(errno) : "-"); errno = 0; }
#define CALL(name, ...) show(#name " " #__VA_ARGS__, syscall(SYS_##name, __VA_ARGS__))
int main(void) {
    struct timespec zero = {0, 0}, negative = {-1, 0}, large = {0, 2000000000};
    unsigned long set = 1UL << (SIGUSR1 - 1), old = 7, nothing = 0;
    siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE};
    unsigned long *readonly = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct { unsigned long *set; unsigned long size; } pair = {0, 8}, bad_pair = {&set, 4}, unreadable = {(void *)8, 8};
    pid_t me = getpid();
    CALL(ppoll, 0, 0, &zero, 0, 8);
    CALL(ppoll, 0, 0, &zero, 0, 0);
    CALL(ppoll, 0, 0, &zero, &nothing, 4);
    CALL(ppoll, 0, 0, &zero, 8, 8);
    CALL(ppoll, 0, 0, &negative, 0, 8);
    CALL(pselect6, 0, 0, 0, 0, &zero, &pair);
    CALL(pselect6, 0, 0, 0, 0, &zero, &bad_pair);
    CALL(pselect6, 0, 0, 0, 0, &zero, &unreadable);
    CALL(pselect6, 0, 0, 0, 0, &large, 0L); // the sixth comes from the stack: a whole word
    CALL(rt_sigsuspend, &set, 4);
    CALL(rt_sigsuspend, 8, 8);
    CALL(rt_sigtimedwait, &set, 0, &zero, 8);
    CALL(rt_sigtimedwait, &set, 0, &zero, 4);
    CALL(rt_sigtimedwait, 8, 0, &zero, 8);
    CALL(rt_sigtimedwait, &set, 0, &large, 8);
    CALL(rt_sigtimedwait, &nothing, 0, &zero, 8);
    CALL(rt_sigpending, &old, 8);
    CALL(rt_sigpending, &old, 4);
    CALL(rt_sigpending, &old, 0);
    CALL(rt_sigpending, &old, 16);
    CALL(rt_sigpending, 8, 8);
    CALL(rt_sigpending, readonly, 8);
    CALL(rt_sigprocmask, SIG_BLOCK, 0, readonly, 8);
    CALL(rt_sigprocmask, SIG_BLOCK, &set, readonly, 8);
    CALL(rt_sigprocmask, SIG_BLOCK, 0, &old, 8);
    printf("mask %lx\n", old);
    CALL(rt_sigprocmask, SIG_UNBLOCK, &set, 0, 8);
    CALL(rt_sigprocmask, 77, 0, &old, 8);
    CALL(rt_sigprocmask, -1, 0, 0, 8);
    CALL(rt_sigprocmask, SIG_BLOCK, 0, 0, 0);
    CALL(rt_sigprocmask, SIG_BLOCK, -1, 0, 8);
    CALL(rt_sigaction, 0, 0, 0, 8);
    CALL(rt_sigaction, SIGUSR1, 0, readonly, 8);
    CALL(rt_sigaction, -5, 0, 0, 8);
    CALL(rt_sigaction, SIGSTOP, 0, &old - 10, 8);
    CALL(rt_sigaction, 64, 0, 0, 8);
    CALL(kill, me, 65);
    CALL(kill, me, -1);
    CALL(kill, me, 0);
    CALL(kill, 0x7ffffff0, 0);
    CALL(tgkill, me, me, 65);
    CALL(tgkill, me, 0x7ffffff0, 0);
    CALL(tgkill, -1, me, 0);
    CALL(tkill, me, 0);
    CALL(rt_sigqueueinfo, me, 65, &info);
    CALL(rt_sigqueueinfo, me, 0, &info);
    CALL(rt_sigqueueinfo, me, SIGUSR1, 8);
    CALL(signalfd4, -1, &set, 4, 0);
    CALL(signalfd4, -1, &set, 8, 1);
    CALL(signalfd4, 0, &set, 8, 0);
    CALL(timer_create, 9999, 0, &old);
    CALL(setitimer, 9, 0, 0);
    return 0;
}
