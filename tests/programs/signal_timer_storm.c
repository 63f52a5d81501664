// A timer every 100 microseconds while checksums run through calls, indirect
// calls, recursion, strings, x87, SSE: the sums stay exact; the handler
// clobbers everything it may and checks its stack alignment.
// build: cc -O1 -mavx2 -lm
// run: needs avx2
// run: nondeterministic-counts
// run: repeat 2
// run: timeout 40
// run: no-oracle a timer every 100 microseconds leaves a stepped program no time to get on
#include <immintrin.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
static volatile int ticks, misaligned;
static __attribute__((noinline)) int deep(int n) { volatile char pad[40]; pad[0] = n; return n ? deep(n - 1) + pad[0] : 0; }
static void handler(int sig) {
    __m256i z __attribute__((aligned(32))) = _mm256_set1_epi8(0x5a);
    asm volatile("vmovdqa %0, %%ymm0; vmovdqa %%ymm0, %%ymm7; vmovdqa %%ymm0, %%ymm15; fninit; fldpi; fldpi; cld" : : "m"(z) : "memory");
    if (((unsigned long)__builtin_frame_address(0) & 15) != 0) misaligned = 1;
    deep(5);
    ticks++;
}
static unsigned mixa(unsigned x) { return x * 3 + 1; }
static unsigned mixb(unsigned x) { return x ^ x >> 5; }
static unsigned mixc(unsigned x) { return x << 7 | x >> 25; }
static unsigned (*volatile table[])(unsigned) = {mixa, mixb, mixc, mixb};
static unsigned fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval it = {{0, 100}, {0, 100}}, off = {{0, 0}, {0, 0}};
    unsigned reference = 0, bad = 0, round = 0;
    static char a[5000], b[5000];
    for (; round < 2000 && (ticks < 400 || round < 20); round++) {
        if (round == 1) setitimer(ITIMER_REAL, &it, 0);
        unsigned x = 1;
        for (int i = 0; i < 4000; i++) x = table[(x >> 3) & 3](x) + i;
        x ^= fib(15);
        for (int i = 0; i < 5000; i++) a[i] = x + i;
        memmove(b, a, 5000);
        asm volatile("rep movsb" : : "S"(a), "D"(b + 1), "c"(4000) : "memory");
        for (int i = 0; i < 5000; i++) x = x * 31 + b[i];
        double d = 1; long double l = 1;
        for (int i = 1; i < 300; i++) { d = d * 1.0001 + sqrt(i); l = l / 3 + i; }
        x ^= (unsigned)(long)(d * 1000) ^ (unsigned)(long)(l * 1000);
        __m256i v = _mm256_set_epi32(1, 2, 3, 4, 5, 6, 7, x);
        for (int i = 0; i < 500; i++) v = _mm256_add_epi32(_mm256_mullo_epi32(v, v), _mm256_set1_epi32(i));
        unsigned lanes[8];
        _mm256_storeu_si256((__m256i *)lanes, v);
        for (int i = 0; i < 8; i++) x = x * 7 + lanes[i];
        if (!round) reference = x;
        bad += x != reference;
    }
    setitimer(ITIMER_REAL, &off, 0);
    printf("%08x bad %u ticked %d misaligned %d\n", reference, bad, ticks > 0, misaligned);
    return 0;
}
