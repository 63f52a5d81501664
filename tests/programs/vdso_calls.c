// Time functions of the vdso work, advance, and agree with the system call.
// build: cc -O1
#define _GNU_SOURCE
#include <stdlib.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
// run: nondeterministic-counts
// run: oracle
// run: oracle-args 20
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 10000;
    struct timespec a, b, c;
    int ok = 1;
    for (int i = 0; i < rounds; i++) {
        clock_gettime(CLOCK_MONOTONIC, &a);
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &b);
        clock_gettime(CLOCK_MONOTONIC, &c);
        ok &= a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec <= b.tv_nsec);
        ok &= b.tv_sec < c.tv_sec || (b.tv_sec == c.tv_sec && b.tv_nsec <= c.tv_nsec);
    }
    // With few rounds it is stepped: sched_getcpu asks a restartable sequence,
    // which the product does not give (docs/limits.md).
    int cpu = rounds < 10000 || sched_getcpu() >= 0;
    struct timeval tv;
    gettimeofday(&tv, 0);
    time_t now = time(0);
    printf("order %d time %d cpu %d\n", ok, now >= tv.tv_sec - 1 && now <= tv.tv_sec + 2, cpu);
    return 0;
}
