// The same address holds other code after munmap and mmap, after MAP_FIXED
// over it, after mremap, after MADV_DONTNEED, and after a file is mapped.
// build: cc -O1
// run: oracle
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static sigjmp_buf back;
static void handler(int sig) { siglongjmp(back, sig); }
static char *at;
static int run(void) { int s = sigsetjmp(back, 1); if (s) return -s; return ((int (*)(void))(void *)at)(); }
static void put(char *p, int value) { p[0] = (char)0xb8; memcpy(p + 1, &value, 4); p[5] = (char)0xc3; }
#define RWX PROT_READ | PROT_WRITE | PROT_EXEC
int main(void) {
    signal(SIGSEGV, handler);
    signal(SIGILL, handler);
    at = mmap(0, 4096, RWX, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    put(at, 1);
    printf("%d\n", run());
    munmap(at, 4096);
    printf("%d\n", run());
    mmap(at, 4096, RWX, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    put(at, 2);
    printf("%d\n", run());
    mmap(at, 4096, RWX, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    put(at, 3);
    printf("%d\n", run());
    char *other = mmap(0, 4096, RWX, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    put(other, 4);
    mremap(other, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, at);
    printf("%d\n", run());
    int fd = memfd_create("code", 0);
    char bytes[4096] = {0};
    put(bytes, 5);
    write(fd, bytes, 4096);
    mmap(at, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
    printf("%d\n", run());
    char *alias = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    mmap(at, 4096, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, fd, 0);
    printf("%d\n", run());
    put(alias, 6);
    printf("%d\n", run());
    put(bytes, 7);
    pwrite(fd, bytes, 4096, 0);
    printf("%d\n", run());
    mprotect(at, 4096, PROT_READ);
    printf("%d\n", run());
    mprotect(at, 4096, PROT_READ | PROT_EXEC);
    printf("%d\n", run());
    mmap(at, 4096, RWX, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    put(at, 8);
    printf("%d\n", run());
    madvise(at, 4096, MADV_DONTNEED);
    put(at, 9);
    printf("%d\n", run());
    int ends[2];
    pipe(ends);
    put(bytes, 10);
    write(ends[1], bytes, 64);
    printf("read %zd\n", read(ends[0], at, 64));
    printf("%d\n", run());
    return 0;
}
