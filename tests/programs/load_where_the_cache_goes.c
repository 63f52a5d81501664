// A program linked where the code cache lies otherwise, as valgrind's tools are.
// build: gcc -O1 -static -no-pie -Wl,-Ttext-segment=0x58000000
// run: oracle own-functions
#include <stdio.h>
#include <stdlib.h>

static char large[16 << 20];

int main(void)
{
    large[sizeof large - 1] = 1;
    char *heap = malloc(100);
    printf("%p %d %d\n", (void *)main > (void *)0x58000000 ? (void *)1 : 0, large[sizeof large - 1], heap != 0);
    free(heap);
    return 0;
}
