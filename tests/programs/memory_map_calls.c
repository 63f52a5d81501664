// mmap, munmap, mremap, mprotect, madvise: fixed, no-replace, zero length,
// wrap-around, growing in place and moving; errors exactly the kernel's.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void show(const char *what, void *p) { printf("%s %s\n", what, p == MAP_FAILED ? strerrorname_np(errno) : p ? "ok" : "0"); }
#define RW PROT_READ | PROT_WRITE
#define ANON MAP_PRIVATE | MAP_ANONYMOUS
int main(void) {
    char *p = mmap(0, 16 * 4096, RW, ANON, -1, 0);
    memset(p, 7, 16 * 4096);
    show("fixed inside", mmap(p + 4096, 4096, RW, ANON | MAP_FIXED, -1, 0));
    printf("%d %d %d\n", p[0], p[4096], p[8192]);
    show("noreplace", mmap(p, 4096, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
    show("zero length", mmap(0, 0, RW, ANON, -1, 0));
    show("wrap", mmap(0, ~0ul - 4096, RW, ANON, -1, 0));
    show("unaligned fixed", mmap(p + 1, 4096, RW, ANON | MAP_FIXED, -1, 0));
    show("bad fd", mmap(0, 4096, RW, MAP_PRIVATE, 999, 0));
    printf("munmap zero %d %s\n", munmap(p, 0), strerrorname_np(errno));
    printf("munmap unaligned %d\n", munmap(p + 1, 4096));
    printf("munmap hole %d\n", munmap(p + 4096 * 4, 4096));
    printf("munmap hole again %d\n", munmap(p + 4096 * 4, 4096));
    printf("mprotect hole %d %s\n", mprotect(p, 16 * 4096, PROT_READ), strerrorname_np(errno));
    mprotect(p, 4 * 4096, RW);
    char *q = mremap(p + 4096 * 8, 4096 * 4, 4096 * 2, 0);
    printf("shrink %d %d\n", q == p + 4096 * 8, q[0]);
    show("grow in place", mremap(p, 4096, 4096 * 3, 0));
    q = mremap(p + 4096 * 8, 4096 * 2, 4096 * 200, MREMAP_MAYMOVE);
    printf("moved %d %d\n", q != MAP_FAILED, q[4096] + q[4096 * 199]);
    char *low = mmap(0, 4096, RW, ANON | MAP_32BIT, -1, 0);
    printf("32bit %d\n", (unsigned long)low < 1ul << 32);
    q[5] = 9;
    printf("dontneed %d %d\n", madvise(q, 4096, MADV_DONTNEED), q[5]);
    unsigned char vec[4];
    printf("mincore %d\n", mincore(q, 4096, vec));
    printf("mprotect wx %d\n", mprotect(q, 4096, RW | PROT_EXEC));
    printf("bad prot %d %s\n", mprotect(q + 1, 4096, PROT_READ), strerrorname_np(errno));
    return 0;
}
