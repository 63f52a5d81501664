// A gather whose third lane faults leaves the mask and destination of the
// lanes done, delivers the fault address, and completes after the page is
// made readable.
// build: cc -O1 -mavx2
// run: needs avx2
// run: oracle own-functions
#include <immintrin.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
static char *base, *fault;
static int faults;
static void handler(int sig, siginfo_t *info, void *context) {
    fault = info->si_addr; faults++;
    mprotect(base + 4096, 4096, PROT_READ | PROT_WRITE);
    ((int *)(base + 4096))[2] = 4242;
}
int main(void) {
    base = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 1024; i++) ((int *)base)[i] = i * 3;
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    mprotect(base + 4096, 4096, PROT_NONE);
    __m256i index = _mm256_set_epi32(7, 1026, 5, 4, 3, 1026, 1, 0), mask = _mm256_set1_epi32(-1), value = _mm256_set1_epi32(-7);
    asm volatile("vpgatherdd %1, (%2,%3,4), %0" : "+x"(value), "+x"(mask) : "r"(base), "x"(index) : "memory");
    int v[8], m[8];
    _mm256_storeu_si256((__m256i *)v, value);
    _mm256_storeu_si256((__m256i *)m, mask);
    for (int i = 0; i < 8; i++) printf("%d %d\n", v[i], m[i]);
    printf("faults %d at %ld\n", faults, (long)(fault - base));
    return 0;
}
