// Code that changes the instruction right behind the store, in the same
// straight run: the new bytes count.
// build: cc -O1
// run: oracle own-functions
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
// mov %edi,%eax; movb %sil,imm(%rip); (imm:) add $imm8,%eax; ret
static const unsigned char code[] = {0x89, 0xf8, 0x40, 0x88, 0x35, 2, 0, 0, 0, 0x83, 0xc0, 0x01, 0xc3};
// loop: add $1,%eax; incb imm(%rip); dec %edi; jnz loop; ret
static const unsigned char loop[] = {0x31, 0xc0, 0x83, 0xc0, 0x01, 0xfe, 0x05, 0xf9, 0xff, 0xff, 0xff, 0xff, 0xcf, 0x75, 0xf3, 0xc3};
int main(void) {
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    unsigned sum = 0;
    for (int i = 0; i < 500; i++) sum = sum * 31 + ((int (*)(int, int))(void *)page)(i, i * 5 & 0x7f);
    printf("%u\n", sum);
    memcpy(page + 100, loop, sizeof loop);
    printf("%d\n", ((int (*)(int))(void *)(page + 100))(50));
    printf("%d\n", ((int (*)(int))(void *)(page + 100))(20));
    return 0;
}
