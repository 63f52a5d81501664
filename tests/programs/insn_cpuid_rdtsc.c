// cpuid, xgetbv, rdtsc, rdtscp, rdpid run; the clock never goes back.
// build: cc -O1
// run: oracle own-functions
#include <cpuid.h>
#include <stdio.h>
#include <x86intrin.h>
int main(void) {
    unsigned a, b, c, d;
    __cpuid(0, a, b, c, d);
    printf("%.4s%.4s%.4s\n", (char *)&b, (char *)&d, (char *)&c);
    __cpuid(1, a, b, c, d);
    unsigned lo, hi, aux;
    asm volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    printf("%x %x %x\n", a, lo, hi);
    unsigned long long last = __rdtsc(), now;
    int ok = 1;
    for (int i = 0; i < 1000; i++) { now = i & 1 ? __rdtsc() : __rdtscp(&aux); ok &= now >= last; last = now; }
    printf("%d\n", ok);
    return 0;
}
