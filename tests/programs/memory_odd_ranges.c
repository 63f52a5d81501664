// Calls with addresses that are no page's, about memory that was the program's and
// is free: a translator may have put something of its own there meanwhile, and
// the kernel refuses them before it looks.
// build: cc -O1
// run: no-oracle it calls code that it wrote, twenty thousand functions
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
enum { HOLE = 8 << 20, STEP = 64 << 10, FUNCTIONS = 20000, SIZE = 16 };
static int wrong;
static void expect(const char *what, char *at, long result, int error) {
    if (result != -1 || errno != error)
        wrong++, printf("%s of %p: %ld, error %d\n", what, (void *)at, result, errno);
}
int main(void) {
    char *hole = mmap(0, HOLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *code = mmap(0, FUNCTIONS * SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // mov eax, i; ret
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        memcpy(code + i * SIZE, "\xb8....\xc3", 6);
        memcpy(code + i * SIZE + 1, &i, 4);
    }
    mprotect(code, FUNCTIONS * SIZE, PROT_READ | PROT_EXEC);
    munmap(hole, HOLE);
    unsigned sum = 0;
    for (unsigned i = 0; i < FUNCTIONS; i++)
        sum += ((unsigned (*)(void))(code + i * SIZE))();
    for (char *at = hole + 1; at < hole + HOLE; at += STEP) {
        expect("munmap", at, munmap(at, 4096), EINVAL);
        expect("mprotect", at, mprotect(at, 4096, PROT_NONE), EINVAL);
        expect("madvise", at, madvise(at, 4096, MADV_DONTNEED), EINVAL);
        expect("mremap", at, mremap(at, 4096, 8192, MREMAP_MAYMOVE) == MAP_FAILED ? -1 : 0, EINVAL);
        expect("msync", at, msync(at, 4096, MS_ASYNC), EINVAL);
        unsigned char resident;
        expect("mincore", at, mincore(at, 4096, &resident), EINVAL);
    }
    printf("%u, wrong %d\n", sum, wrong);
    return 0;
}
