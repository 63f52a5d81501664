// A program linked just below two gigabytes: its heap lies above.
// build: cc -O1 -static -no-pie -Wl,--no-relax -Wl,-Ttext-segment=0x7ff00000
// run: oracle own-functions
#include <stdio.h>
#include <stdlib.h>
static int data = 5;
static int twice(int x) { return 2 * x; }
int main(int argc, char **argv) {
    int (*volatile call)(int) = twice;
    char *p = malloc(100000);
    p[99999] = 7;
    printf("text %lx data %d %d heap %d\n", (unsigned long)main >> 20, (long)&data >> 20 < 0x810, call(data), p[99999]);
    return 0;
}
