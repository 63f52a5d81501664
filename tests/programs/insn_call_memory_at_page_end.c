// Calls and jumps through memory, and other branches, whose last byte is the
// last of a page behind which nothing is mapped.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
    for (int how = 0; how < 5; how++) {
        unsigned char *page = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        unsigned char *end = page + 4096, *start;
        munmap(end, 4096);
        long target = (long)(page + 64);
        memcpy(page + 128, &target, 8);
        // target: pop the return address if it was a call; eax = 100 + how; ret
        unsigned char body[] = {0xb8, 100 + how, 0, 0, 0, 0xc3}, pop[] = {0x58};
        int call = how == 0 || how == 2;
        if (call) memcpy(page + 64, pop, 1);
        memcpy(page + 64 + call, body, sizeof body);
        int displacement = (int)(page + 128 - end), direct = (int)(page + 64 - end);
        switch (how) {
            case 0: case 1: start = end - 6; start[0] = 0xff; start[1] = how ? 0x25 : 0x15; memcpy(start + 2, &displacement, 4); break;
            case 2: start = end - 5; start[0] = 0xe8; memcpy(start + 1, &direct, 4); break;
            case 3: start = end - 5; start[0] = 0xe9; memcpy(start + 1, &direct, 4); break;
            default: start = end - 8; memcpy(start, (unsigned char[]){0x31, 0xc0}, 2); start[2] = 0x0f; start[3] = 0x84; memcpy(start + 4, &direct, 4);
        }
        for (int i = 0; i < 50; i++) if (((int (*)(void))start)() != 100 + how) printf("wrong\n");
        printf("%d: %d\n", how, ((int (*)(void))start)());
        munmap(page, 4096);
    }
    return 0;
}
