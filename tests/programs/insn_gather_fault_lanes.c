// A gather faults in each of its lanes in turn: what was gathered stays, the
// mask shows what is left, and after the page is opened it completes.
// build: cc -O1 -mavx2
// run: needs avx2
// run: oracle own-functions
#define _GNU_SOURCE
#include <immintrin.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
static char *pages;
static int faults, lane;
static void handler(int sig, siginfo_t *info, void *context) {
    faults++;
    printf(" fault in page %ld", ((char *)info->si_addr - pages) / 4096);
    mprotect((void *)((long)info->si_addr & -4096), 4096, PROT_READ | PROT_WRITE);
}
int main(void) {
    pages = mmap(0, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    for (int i = 0; i < 8; i++) *(int *)(pages + i * 4096 + 64) = 100 + i;
    __m256i index = _mm256_setr_epi32(16, 1040, 2064, 3088, 4112, 5136, 6160, 7184);
    for (int form = 0; form < 3; form++) for (lane = 0; lane < 8; lane++) {
        if (form == 1 && lane >= 4) break;
        mprotect(pages + lane * 4096, 4096, PROT_NONE);
        printf("%d lane %d:", form, lane);
        int out[8];
        long wide[4] = {0};
        if (form == 0) _mm256_storeu_si256((void *)out, _mm256_i32gather_epi32((int *)pages, index, 4));
        if (form == 1) { _mm256_storeu_si256((void *)wide, _mm256_i64gather_epi64((long long *)pages, _mm256_setr_epi64x(8, 520, 1032, 1544), 8)); for (int i = 0; i < 4; i++) out[i] = out[i + 4] = wide[i]; }
        if (form == 2) _mm256_storeu_si256((void *)out, _mm256_mask_i32gather_epi32(_mm256_set1_epi32(7), (int *)pages, index, _mm256_setr_epi32(-1, 0, -1, 0, -1, 0, -1, 0), 4));
        for (int i = 0; i < 8; i++) printf(" %d", out[i]);
        printf("\n");
        mprotect(pages + lane * 4096, 4096, PROT_READ | PROT_WRITE);
    }
    printf("faults %d\n", faults);
    return 0;
}
