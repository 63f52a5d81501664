// A read-write-execute page rewritten a thousand times without any call to
// the system, and data stores beside the code.
// build: cc -O1
// run: oracle
// run: oracle-args 30
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    unsigned char *page = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned *counter = (unsigned *)(page + 2048), sum = 0;
    for (unsigned i = 0; i < rounds; i++) {
        unsigned char code[] = {0xb8, i, i >> 8, 0, 0, 0x01, 0xf8, 0xc3};
        memcpy(page, code, sizeof code);
        for (int k = 0; k < 20; k++) { sum = sum * 31 + ((unsigned (*)(unsigned))(void *)page)(k); (*counter)++; }
    }
    printf("%u %u\n", sum, *counter);
    return 0;
}
