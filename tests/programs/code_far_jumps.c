// Code far from everything: pages near 0x10000, below 2 GB, and high up call
// each other and libc through registers, and use rip-relative data there.
// build: cc -O1 -pie -fPIE
// run: oracle
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    static unsigned long places[] = {0x1000000, 0x70000000, 0x600000000000, 0x200000000, 0x7000000000, 0x30000000};
    unsigned long chain[8] = {0};
    for (int i = 0; i < 6; i++) {
        unsigned char *p = mmap((void *)places[i], 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (p != (void *)places[i]) { printf("no place %lx\n", places[i]); return 1; }
        unsigned char *q = p;
#define PUT(...) do { static const unsigned char b[] = {__VA_ARGS__}; memcpy(q, b, sizeof b); q += sizeof b; } while (0)
        PUT(0x03, 0x3d, 0xfa, 0, 0, 0);          // add 256(page),%edi
        PUT(0x89, 0xf8);                         // mov %edi,%eax
        PUT(0xff, 0x05, 0xf2, 0, 0, 0);          // incl 256(page)
        PUT(0x48, 0x83, 0x3e, 0);                // cmpq $0,(%rsi)
        PUT(0x74, 17);                           // je end
        PUT(0x48, 0x83, 0xec, 8);                // sub $8,%rsp
        PUT(0x48, 0x8b, 0x16);                   // mov (%rsi),%rdx
        PUT(0x48, 0x83, 0xc6, 8);                // add $8,%rsi
        PUT(0xff, 0xd2);                         // call *%rdx
        PUT(0x48, 0x83, 0xc4, 8);                // add $8,%rsp
        PUT(0xc3);                               // end: ret
        int start = i * 100;
        memcpy(p + 256, &start, 4);
        chain[i] = places[i];
    }
    int r = 0;
    for (int round = 0; round < 100; round++) r += ((int (*)(int, unsigned long *))chain[round % 6])(round, chain + round % 6 + 1);
    printf("%d\n", r);
    return 0;
}
