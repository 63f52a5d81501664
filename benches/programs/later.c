// Code that comes late: `later MS [prctl | seccomp]` filters its calls by that call
// if asked, computes for so many milliseconds, and calls functions that it wrote.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
enum { FUNCTIONS = 256, SIZE = 16 };
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}
static int filter(const char *how) {
    struct sock_filter rule = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &rule};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    return strcmp(how, "prctl") ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
int main(int argc, char **argv) {
    if (argc > 2 && filter(argv[2]))
        return 2;
    unsigned sum = 0;
    for (double end = now() + (argc > 1 ? atof(argv[1]) : 0); now() < end;)
        sum++;
    unsigned char *code = mmap(0, FUNCTIONS * SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // mov eax, i; ret
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        memcpy(code + i * SIZE, "\xb8....\xc3", 6);
        memcpy(code + i * SIZE + 1, &i, 4);
    }
    mprotect(code, FUNCTIONS * SIZE, PROT_READ | PROT_EXEC);
    unsigned total = 0;
    for (unsigned i = 0; i < FUNCTIONS; i++)
        total += ((unsigned (*)(void))(code + i * SIZE))();
    printf("%u\n", total);
    return sum == 0;
}
