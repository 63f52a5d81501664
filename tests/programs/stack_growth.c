// The main stack grows by faults to megabytes; locals keep their values.
// build: cc -O0
// run: oracle own-functions
#include <stdio.h>
static unsigned sum(int depth) {
    volatile unsigned char page[4096];
    for (int i = 0; i < 4096; i += 512) page[i] = depth + i;
    unsigned below = depth ? sum(depth - 1) : 0;
    for (int i = 0; i < 4096; i += 512) below += page[i];
    return below;
}
int main(void) { printf("%u\n", sum(1500)); return 0; }
