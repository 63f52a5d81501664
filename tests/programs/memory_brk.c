// brk and sbrk return exactly what was asked for, zero fresh pages, shrink and
// grow again, and refuse the impossible.
// build: cc -O1
// run: oracle own-functions
// run: oracle-args 5000
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int size = argc > 1 ? atoi(argv[1]) : 1000003;
    char *start = sbrk(0);
    printf("first %d\n", sbrk(100) == start);
    printf("odd %d\n", (char *)sbrk(0) == start + 100);
    memset(start, 1, 100);
    printf("grow %d\n", brk(start + size) == 0 && (char *)sbrk(0) == start + size);
    int zero = 0;
    for (int i = 100; i < size; i++) zero |= start[i];
    printf("zero %d\n", zero == 0);
    memset(start, 2, size);
    printf("shrink %d\n", brk(start + 5) == 0 && (char *)sbrk(0) == start + 5);
    brk(start + size);
    long page = 4096, first = ((uintptr_t)start + 5 + page - 1) / page * page - (uintptr_t)start;
    zero = 0;
    for (long i = first; i < size; i++) zero |= start[i];
    printf("zero again %d kept %d\n", zero == 0, start[4] == 2);
    printf("too much %d\n", brk((void *)(1L << 46)) != 0 && (char *)sbrk(0) == start + size);
    printf("too little %d\n", (char *)syscall(SYS_brk, 1) == start + size);
    unsigned seed = 1;
    for (int i = 0; i < size / 50; i++) {
        seed = seed * 1103515245 + 12345;
        char *want = start + (seed >> 10) % 2000000;
        if (brk(want) || sbrk(0) != (void *)want) { printf("lost at %d\n", i); return 1; }
        if (want > start) want[-1] = 1;
    }
    printf("done\n");
    return 0;
}
