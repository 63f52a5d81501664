// The three entries of the vsyscall page return as functions do; any other
// address in it faults there, and reading it faults.
// build: cc -O1
// run: oracle own-functions
// run: no-counts the oracle does not see a call whose target the kernel refuses
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
static sigjmp_buf back;
static void *volatile where;
static void handler(int sig, siginfo_t *info, void *context) { where = info->si_addr; siglongjmp(back, 1); }
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    struct timeval tv;
    unsigned cpu = ~0u;
    long (*vtime)(long *) = (void *)0xffffffffff600400;
    int (*vgettimeofday)(void *, void *) = (void *)0xffffffffff600000;
    int (*vgetcpu)(unsigned *, unsigned *, void *) = (void *)0xffffffffff600800;
    if (!sigsetjmp(back, 1)) {
        long t = vtime(0), now = time(0);
        printf("time %d\n", t >= now - 2 && t <= now + 2);
        printf("gettimeofday %d %d\n", vgettimeofday(&tv, 0), tv.tv_sec >= now - 2);
        printf("getcpu %d %d\n", vgetcpu(&cpu, 0, 0), cpu != ~0u);
    } else printf("no vsyscall page\n");
    if (!sigsetjmp(back, 1)) { ((void (*)(void))0xffffffffff600100)(); printf("ran\n"); }
    else printf("jump faults at %p\n", where);
    if (!sigsetjmp(back, 1)) { volatile char c = *(char *)0xffffffffff600000; printf("read %d\n", c != 0); }
    else printf("read faults at %p\n", where);
    return 0;
}
