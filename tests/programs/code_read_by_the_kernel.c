// The kernel writes the code: read, pread, recv, getrandom, and splitting a
// page between code and data that system calls fill.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3};
    int ends[2], pair[2], fd = memfd_create("code", 0), wrong = 0;
    pipe(ends);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    for (int i = 1; i <= 90; i++) {
        memcpy(code + 1, &i, 4);
        long r;
        switch (i % 3) {
            case 0: write(ends[1], code, 6); r = read(ends[0], page, 6); break;
            case 1: pwrite(fd, code, 6, 0); r = pread(fd, page, 6, 0); break;
            default: send(pair[0], code, 6, 0); r = recv(pair[1], page, 6, 0);
        }
        wrong += r != 6 || ((int (*)(void))page)() != i;
    }
    printf("wrong %d\n", wrong);
    printf("random %zd\n", getrandom(page + 100, 8, 0));
    struct stat s;
    printf("stat %d", fstat(fd, (struct stat *)(page + 512)));
    memcpy(&s, page + 512, sizeof s);
    printf(" size %ld\n", (long)s.st_size);
    printf("code %d\n", ((int (*)(void))page)());
    printf("clock %d\n", clock_gettime(CLOCK_MONOTONIC, (struct timespec *)(page + 1024)));
    return 0;
}
