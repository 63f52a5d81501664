// The same memory mapped twice, writable here and executable there, as
// compilers with W^X have it: what was written is what runs.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    int fd = memfd_create("code", MFD_CLOEXEC);
    ftruncate(fd, 8192);
    unsigned char *write_at = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *run_at = mmap(0, 8192, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    unsigned sum = 0, wrong = 0;
    for (int i = 0; i < 500; i++) {
        unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3};
        int at = i % 7 * 100 + (i & 1) * 4096;
        memcpy(code + 1, &i, 4);
        memcpy(write_at + at, code, 6);
        unsigned got = ((unsigned (*)(void))(run_at + at))();
        wrong += got != (unsigned)i;
        sum += got;
    }
    printf("sum %u wrong %u\n", sum, wrong);
    lseek(fd, 0, SEEK_SET);
    unsigned char other[] = {0xb8, 0x39, 0x30, 0, 0, 0xc3};
    pwrite(fd, other, 6, 0);
    printf("written to the file %u\n", ((unsigned (*)(void))run_at)());
    return 0;
}
