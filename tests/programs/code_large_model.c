// Three gigabytes of zeroed data between the program and its heap: code and
// data farther apart than a 32-bit displacement reaches.
// build: cc -O1 -mcmodel=large -no-pie -fno-pie
// run: oracle own-functions
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char big[3UL << 30];
static int (*table[3])(int);
static int one(int x) { return x + 1; }
static int two(int x) { return x * 2; }
static int three(int x) { return x ^ 3; }
int main(void) {
    table[0] = one; table[1] = two; table[2] = three;
    unsigned sum = 0;
    for (unsigned long i = 0; i < sizeof big; i += 64UL << 20) { big[i] = i >> 26; sum = sum * 31 + table[i % 3](big[i]); }
    char *heap = malloc(1000);
    strcpy(heap, "far away");
    printf("%08x %s %d\n", sum, heap, (unsigned long)&big[sizeof big - 1] - (unsigned long)big > 0x80000000);
    return 0;
}
