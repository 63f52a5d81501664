// prctl(PR_SET_TSC): while it is forbidden to read the clock of the CPU, rdtsc
// and rdtscp fault, and everything else goes on.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
static volatile int faults, lengths;
static void handler(int sig, siginfo_t *info, void *context) {
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    unsigned char *at = (unsigned char *)r[REG_RIP];
    int length = at[0] == 0x0f && at[1] == 0x31 ? 2 : at[0] == 0x0f && at[1] == 0x01 && at[2] == 0xf9 ? 3 : 0;
    if (!length) { write(1, "elsewhere\n", 10); _exit(1); }
    faults++;
    lengths += length;
    r[REG_RIP] += length;
}
static unsigned read_clock(void) { unsigned low = 1; asm volatile("rdtsc" : "+a"(low) :: "rdx"); asm volatile("rdtscp" : "+a"(low) :: "rdx", "rcx"); return low; }
static int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    read_clock();
    printf("allowed: faults %d\n", faults);
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) { puts("cannot be forbidden"); return 0; }
    read_clock();
    printf("forbidden: faults %d lengths %d\n", faults, lengths);
    int numbers[2000];
    unsigned seed = 1;
    for (int i = 0; i < 2000; i++) { seed = seed * 1103515245 + 12345; numbers[i] = seed >> 8; }
    qsort(numbers, 2000, sizeof *numbers, compare);
    printf("median %d %.3f\n", numbers[1000], numbers[1000] / 7.0);
    fflush(stdout);
    int status, mode = 0;
    if (!fork()) { read_clock(); _exit(faults); }
    wait(&status);
    printf("child %d\n", WEXITSTATUS(status));
    prctl(PR_GET_TSC, &mode);
    printf("mode %d\n", mode);
    prctl(PR_SET_TSC, PR_TSC_ENABLE);
    read_clock();
    printf("allowed again: faults %d\n", faults);
    return 0;
}
