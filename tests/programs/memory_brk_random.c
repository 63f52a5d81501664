// Sixty thousand random moves of the heap's end, checked after each.
// build: cc -O1
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <unistd.h>
int main(void) {
    char *base = sbrk(0), *end = base;
    unsigned seed = 7, hash = 0;
    for (int i = 0; i < 60000; i++) {
        seed = seed * 1103515245 + 12345;
        long step = (long)(seed >> 16) % 40000 - 20000;
        if (end + step < base || end + step > base + (8 << 20)) step = -step;
        if (end + step < base) step = 0;
        if (sbrk(step) != end) { printf("wrong at %d\n", i); return 1; }
        end += step;
        if (end > base) { end[-1] = (char)i; hash = hash * 31 + (end - base); }
    }
    printf("%08x %d\n", hash, sbrk(0) == end);
    return 0;
}
