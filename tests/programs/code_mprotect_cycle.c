// A page written, made executable, run, made writable, written, run again,
// a thousand times, like a just-in-time compiler with W^X.
// build: cc -O1
// run: oracle
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned sum = 0;
    for (unsigned i = 0; i < 1000; i++) {
        unsigned char code[] = {0x8d, 0x87, i, i >> 8, 0, 0, 0xc3};
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
        memcpy(page + i % 7, code, sizeof code);
        mprotect(page, 4096, PROT_READ | PROT_EXEC);
        sum = sum * 31 + ((unsigned (*)(unsigned))(void *)(page + i % 7))(i);
    }
    printf("%u\n", sum);
    return 0;
}
