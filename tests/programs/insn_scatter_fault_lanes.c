// A scatter faults in each of its lanes in turn: the lanes before are written,
// the opmask shows the rest, and after the page is opened it completes.
// build: cc -O1 -mavx512f
// run: needs avx512f
// run: oracle own-functions
#define _GNU_SOURCE
#include <immintrin.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
static char *pages;
static int faults, written;
static void handler(int sig, siginfo_t *info, void *context) {
    faults++;
    long at = ((char *)info->si_addr - pages) / 4096;
    mprotect(pages + at * 4096, 4096, PROT_READ | PROT_WRITE);
    written = 0;
    for (int i = 0; i < 16; i++) written += *(int *)(pages + i * 4096 + 64) == 1000 + i;
    printf(" fault in page %ld, written %d", at, written);
}
int main(void) {
    pages = mmap(0, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    int index[16], value[16];
    for (int i = 0; i < 16; i++) { index[i] = i * 1024 + 16; value[i] = 1000 + i; }
    for (int lane = 0; lane < 16; lane++) {
        for (int i = 0; i < 16; i++) *(int *)(pages + i * 4096 + 64) = 0;
        mprotect(pages + lane * 4096, 4096, PROT_READ);
        printf("lane %d:", lane);
        _mm512_i32scatter_epi32(pages, _mm512_loadu_si512(index), _mm512_loadu_si512(value), 4);
        int good = 0;
        for (int i = 0; i < 16; i++) good += *(int *)(pages + i * 4096 + 64) == 1000 + i;
        printf(" good %d\n", good);
    }
    printf("faults %d\n", faults);
    return 0;
}
