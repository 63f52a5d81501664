// AVX2 gathers and AVX-512 gathers and scatters with all kinds of masks;
// compress and expand; upper lanes and masks as the CPU leaves them.
// build: cc -O1 -mavx2 -mavx512f -mavx512vl
// run: needs avx2 avx512f avx512vl
// run: oracle own-functions
#include <immintrin.h>
#include <stdio.h>
static int table[64], out[64];
static unsigned mix(unsigned h, const void *p, int n) { const unsigned char *b = p; while (n--) h = h * 31 + *b++; return h; }
int main(void) {
    for (int i = 0; i < 64; i++) table[i] = i * 1000003;
    for (unsigned m = 0; m < 65536; m += 1237) {
        __m512i idx = _mm512_set_epi32(15, 3, 60, 2, 9, 33, 7, 41, 0, 63, 5, 5, 20, 21, 22, 1);
        __m512i g = _mm512_mask_i32gather_epi32(_mm512_set1_epi32(-1), m, idx, table, 4);
        __m256i s = _mm256_i32gather_epi32(table, _mm512_castsi512_si256(idx), 4);
        __m256i mask = _mm256_set_epi32(-(m & 1), 0, -1, -(m >> 1 & 1), 5, -1, 0, 1 << 31);
        __m256i v = _mm256_mask_i32gather_epi32(s, table, _mm512_extracti64x4_epi64(idx, 1), mask, 4);
        for (int i = 0; i < 64; i++) out[i] = i;
        _mm512_mask_i32scatter_epi32(out, m, idx, g, 4);
        int packed[16] = {0};
        _mm512_mask_compressstoreu_epi32(packed, m, g);
        __m512i e = _mm512_mask_expandloadu_epi32(g, (__mmask16)~m, table);
        unsigned h = mix(mix(mix(mix(mix(1, &g, 64), &v, 32), out, 256), packed, 64), &e, 64);
        printf("%04x %08x\n", m, h);
    }
    return 0;
}
