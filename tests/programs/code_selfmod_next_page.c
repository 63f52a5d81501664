// Code in one page patches code in the next page and calls it, both ways.
// build: cc -O1
// run: oracle
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
// store: mov %edi,target(%rip)+1; jmp target      target: mov $imm32,%eax; ret
int main(void) {
    unsigned char *page = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int way = 0; way < 2; way++) {
        unsigned char *store = page + (way ? 4096 : 0), *target = page + (way ? 0 : 4096);
        int d1 = (int)(target + 1 - (store + 6)), d2 = (int)(target - (store + 11));
        store[0] = 0x89; store[1] = 0x3d; memcpy(store + 2, &d1, 4);
        store[6] = 0xe9; memcpy(store + 7, &d2, 4);
        target[0] = 0xb8; target[5] = 0xc3;
        unsigned sum = 0;
        for (int i = 0; i < 300; i++) sum = sum * 31 + ((int (*)(int))(void *)store)(i * i);
        printf("%u\n", sum);
    }
    return 0;
}
