// mincore, msync, mlock, madvise and mbind over whole ranges of the program's
// own: results are the kernel's, gaps stay gaps.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void show(const char *what, long r) { printf("%s %ld %s\n", what, r, r < 0 ? strerrorname_np(errno) : "-"); }
int main(void) {
    char *p = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char resident[32];
    munmap(p + 32768, 4096);
    show("mincore", mincore(p, 32768, resident));
    show("mincore gap", mincore(p, 65536, resident));
    show("msync", msync(p, 32768, MS_ASYNC));
    show("msync gap", msync(p, 65536, MS_ASYNC));
    show("mlock", mlock(p, 8192));
    show("munlock", munlock(p, 8192));
    show("madvise", madvise(p, 32768, MADV_DONTNEED));
    show("madvise gap", madvise(p, 65536, MADV_DONTNEED));
    show("madvise odd", madvise(p + 1, 4096, MADV_DONTNEED));
    show("madvise unknown", madvise(p, 4096, 999));
    show("mprotect gap", mprotect(p, 65536, PROT_READ));
    show("mprotect odd", mprotect(p + 1, 4096, PROT_READ));
    show("mprotect exec gap", mprotect(p, 65536, PROT_READ | PROT_EXEC));
    show("munmap all", munmap(p, 65536));
    show("munmap again", munmap(p, 65536));
    show("munmap odd", munmap(p + 1, 4096));
    show("munmap zero", munmap(p, 0));
    return 0;
}
