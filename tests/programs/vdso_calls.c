// Time functions of the vdso work, advance, and agree with the system call.
// build: cc -O1
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
// run: nondeterministic-counts
int main(void) {
    struct timespec a, b, c;
    int ok = 1;
    for (int i = 0; i < 10000; i++) {
        clock_gettime(CLOCK_MONOTONIC, &a);
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &b);
        clock_gettime(CLOCK_MONOTONIC, &c);
        ok &= a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec <= b.tv_nsec);
        ok &= b.tv_sec < c.tv_sec || (b.tv_sec == c.tv_sec && b.tv_nsec <= c.tv_nsec);
    }
    struct timeval tv;
    gettimeofday(&tv, 0);
    time_t now = time(0);
    printf("order %d time %d cpu %d\n", ok, now >= tv.tv_sec - 1 && now <= tv.tv_sec + 2, sched_getcpu() >= 0);
    return 0;
}
