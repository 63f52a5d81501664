// Code that changes the instruction right behind the store some thousand times,
// so often that its page is compared instead of guarded: the new bytes count
// every time.
// build: cc -O1
// run: oracle own-functions
// run: oracle-args 300
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
// mov %edi,%eax; movb %sil,imm(%rip); (imm:) add $imm8,%eax; ret
static const unsigned char after[] = {0x89, 0xf8, 0x40, 0x88, 0x35, 2, 0, 0, 0, 0x83, 0xc0, 0x01, 0xc3};
// loop: xorb $0x28,1f(%rip); 1: add %ecx,%eax (or sub); dec %edi; jnz loop; ret
static const unsigned char toggled[] = {0x80, 0x35, 0, 0, 0, 0, 0x28, 0x01, 0xc8, 0xff, 0xcf, 0x75, 0xf3, 0xc3};
// mov %rdi,%rdx; mov $1,%ecx; lea 1f(%rip),%rdi; mov %sil,%al; rep stosb; nop; mov $imm,%al (1: its imm); movzx %al,%eax; add %edx,%eax; ret
static const unsigned char string[] = {0x48, 0x89, 0xfa, 0xb9, 1, 0, 0, 0, 0x48, 0x8d, 0x3d, 7, 0, 0, 0, 0x40, 0x88, 0xf0, 0xf3, 0xaa, 0x90, 0xb0, 0x55, 0x0f, 0xb6, 0xc0, 0x01, 0xd0, 0xc3};
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 6000;
    unsigned char *page = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, after, sizeof after);
    memcpy(page + 100, toggled, sizeof toggled);
    memcpy(page + 200, string, sizeof string);
    // mov $imm,%eax; ret, reached by a jump from another page.
    const unsigned char far_jump[] = {0xe9, (300 - 4096 - 5) & 0xff, (300 - 4096 - 5) >> 8 & 0xff, 0xff, 0xff};
    memcpy(page + 300, (unsigned char[]){0xb8, 0, 0, 0, 0, 0xc3}, 6);
    memcpy(page + 4096, far_jump, sizeof far_jump);
    unsigned sums[4] = {0};
    for (int i = 0; i < rounds; i++) {
        int x = i * 5 & 0x7f, y, times = 3;
        sums[0] = sums[0] * 31 + ((int (*)(int, int))(void *)page)(i, x);
        asm volatile("call *%3" : "=a"(y), "+D"(times) : "0"(i), "r"(page + 100), "c"(x) : "memory", "cc");
        sums[1] = sums[1] * 31 + y;
        memcpy(page + 301, &i, 4);
        sums[3] = sums[3] * 31 + ((int (*)(void))(void *)(page + 4096))();
        sums[2] = sums[2] * 31 + ((int (*)(int, int))(void *)(page + 200))(i, x);
    }
    printf("%08x %08x %08x %08x\n", sums[0], sums[1], sums[2], sums[3]);
    return 0;
}
