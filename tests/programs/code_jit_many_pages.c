// A just-in-time compiler's life: two thousand functions over many pages,
// chained by direct calls, freed and made anew.
// build: cc -O1
// run: oracle
// run: oracle-args 100
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#define SIZE (1 << 20)
int main(int argc, char **argv) {
    int functions = argc > 1 ? atoi(argv[1]) : 2000;
    unsigned sum = 0;
    for (int generation = 0; generation < 4; generation++) {
        unsigned char *base = mmap(0, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q = base, *last = 0;
        for (int i = 0; i < functions; i++) {
            unsigned char *start = q;
            *q++ = 0x69; *q++ = 0xff; int k = i * 2 + 3 + generation; memcpy(q, &k, 4); q += 4;   // imul $k,%edi,%edi
            if (last && i % 50) { *q++ = 0x48; *q++ = 0x83; *q++ = 0xec; *q++ = 8; *q++ = 0xe8; int d = (int)(last - (q + 4)); memcpy(q, &d, 4); q += 4; *q++ = 0x48; *q++ = 0x83; *q++ = 0xc4; *q++ = 8; }
            else { *q++ = 0x89; *q++ = 0xf8; }
            *q++ = 0x83; *q++ = 0xc0; *q++ = i & 0x7f; *q++ = 0xc3;
            q += i % 3 * 200;
            last = start;
            if (i % 10 == 0) sum = sum * 31 + ((unsigned (*)(unsigned))(void *)start)(i);
        }
        munmap(base, SIZE);
    }
    printf("%u\n", sum);
    return 0;
}
