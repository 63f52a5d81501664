// The C library's string functions in their variants for other CPUs, chosen by
// GLIBC_TUNABLES: copies, searches and comparisons at all alignments, with
// large thread-local data and threads.
// build: cc -O1 -pthread -fno-builtin
// run: nondeterministic-counts
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static __thread char local[3000];
static unsigned run(void) {
    static __thread char a[4200], b[4200];
    unsigned h = 0;
    for (int i = 0; i < 4200; i++) a[i] = "abcdefghijklmnopq"[i % 17];
    for (int size = 1; size < 4000; size = size * 2 + 1) for (int off = 0; off < 40; off += 13) {
        memset(b, '#', sizeof b);
        memcpy(b + off, a + 3, size);
        memmove(b + off + 5, b + off, size / 2);
        b[off + size] = 0;
        h = h * 31 + strlen(b + off) + (memchr(b, 'q', size) ? (char *)memchr(b, 'q', size) - b : 0);
        h = h * 31 + (strcmp(b + off, a + 3) > 0) + (memcmp(a, b, size) < 0) + (strchr(b + off, 'p') ? strchr(b + off, 'p') - b : -1);
        memcpy(local, b, sizeof local);
        h = h * 31 + local[size % 3000] + (strrchr(b, 'c') ? strrchr(b, 'c') - b : -1) + strnlen(b, 100);
    }
    return h;
}
static void *work(void *arg) { return (void *)(unsigned long)run(); }
int main(int argc, char **argv) {
    static const char *const tunables[] = {
        "glibc.cpu.hwcaps=-AVX512VL_Usable,-AVX512VL", "glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-AVX_Fast_Unaligned_Load",
        "glibc.cpu.hwcaps=-ERMS,-FSRM", "glibc.cpu.x86_rep_movsb_threshold=2048:glibc.cpu.x86_non_temporal_threshold=16500", "glibc.cpu.hwcaps=Prefer_No_VZEROUPPER", "glibc.cpu.hwcaps=-Prefer_No_AVX512_Probing,AVX512ER",
    };
    if (argc > 1) {
        pthread_t t;
        void *r;
        pthread_create(&t, 0, work, 0);
        unsigned h = run();
        pthread_join(t, &r);
        printf("%08x %08x\n", h, (unsigned)(unsigned long)r);
        return 0;
    }
    for (int i = 0; i < 6; i++) {
        fflush(stdout);
        if (!fork()) { setenv("GLIBC_TUNABLES", tunables[i], 1); execl("/proc/self/exe", argv[0], "x", (char *)0); _exit(1); }
        wait(0);
    }
    return 0;
}
