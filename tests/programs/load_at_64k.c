// A program linked to the lowest address the kernel allows.
// build: cc -O1 -static -no-pie -Wl,-Ttext-segment=0x10000
// run: oracle own-functions
#include <stdio.h>
#include <stdlib.h>
static int data = 5;
static int twice(int x) { return 2 * x; }
int main(int argc, char **argv) {
    int (*volatile call)(int) = twice;
    char *p = malloc(100000);
    p[99999] = 7;
    printf("text %d data %d %d heap %d\n", (long)main < 0x400000, (long)&data < 0x400000, call(data), p[99999]);
    return 0;
}
