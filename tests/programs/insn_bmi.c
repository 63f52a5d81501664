// BMI1, BMI2, ADX, popcnt, movbe, crc32, pdep/pext, mulx, rorx.
// build: cc -O1 -mbmi -mbmi2 -madx -mpopcnt -mmovbe -msse4.2 -mlzcnt
// run: needs bmi2 adx movbe
// run: oracle own-functions
// run: oracle-args 100
#include <stdlib.h>
#include <immintrin.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 100000;
    unsigned long h = 0, x = 88172645463325252ul;
    for (int i = 0; i < rounds; i++) {
        x ^= x << 13; x ^= x >> 7; x ^= x << 17;
        unsigned long y = x * 2654435761u, hi;
        unsigned long long lo;
        unsigned char c = _addcarryx_u64(i & 1, x, y, &lo);
        lo += c;
        lo ^= _mulx_u64(x, y, (unsigned long long *)&hi) + hi;
        lo += _pdep_u64(x, y) ^ _pext_u64(y, x) ^ _andn_u64(x, y) ^ _bextr_u64(x, 5, 20) ^ _bzhi_u64(y, i & 63);
        lo += _blsi_u64(x) ^ _blsmsk_u64(y) ^ _blsr_u64(x) ^ _tzcnt_u64(y) ^ _lzcnt_u64(x) ^ __builtin_popcountl(y);
        lo += (unsigned long)((long)x >> (i & 63)) ^ y << (i & 63) ^ __builtin_bswap64(x) ^ _mm_crc32_u64(h, y);
        asm volatile("rorx $11, %1, %0" : "=r"(hi) : "r"(lo));
        h = h * 31 + hi;
    }
    printf("%lx\n", h);
    return 0;
}
