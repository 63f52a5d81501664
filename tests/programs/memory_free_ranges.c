// Calls with bad arguments about addresses where nothing is mapped, of which a translator may have
// some: the kernel's checks come in their order, and a free range is an error only behind them.
// build: cc -O1
// run: no-oracle its loops depend on where free memory is
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { PAGE = 4096, GAPS = 256 };
static int wrong, file;
static void expect(const char *what, unsigned long at, long result, int error) {
    int got = result == -1 ? errno : 0;
    if (got != error && wrong++ < 5) printf("%s at %lx: error %d, not %d\n", what, at, got, error);
}
static long map(unsigned long at, size_t len, int prot, int flags, int fd, off_t offset) {
    void *got = mmap((void *)at, len, prot, flags, fd, offset);
    if (got == MAP_FAILED) return -1;
    munmap(got, len);
    return 0;
}
static void check(unsigned long at) {
    char *page = (char *)at, resident;
    int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, of_file = MAP_PRIVATE | MAP_FIXED;
    expect("mmap odd", at, map(at + 1, PAGE, PROT_READ, fixed, -1, 0), EINVAL);
    expect("mmap odd, noreplace", at, map(at + 1, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0), EINVAL);
    expect("mmap empty", at, map(at, 0, PROT_READ, fixed, -1, 0), EINVAL);
    expect("mmap no file", at, map(at, PAGE, PROT_READ, of_file, -1, 0), EBADF);
    expect("mmap odd offset", at, syscall(SYS_mmap, at, PAGE, PROT_READ, of_file, file, 1l), EINVAL);
    expect("mmap no type", at, map(at, PAGE, PROT_READ, MAP_ANONYMOUS | MAP_FIXED, -1, 0), EINVAL);
    expect("mmap too long", at, map(at, 1ul << 62, PROT_READ, fixed, -1, 0), ENOMEM);
    expect("munmap odd", at, munmap(page + 1, PAGE), EINVAL);
    expect("munmap empty", at, munmap(page, 0), EINVAL);
    expect("munmap too long", at, munmap(page, 1ul << 62), EINVAL);
    expect("munmap to the end", at, munmap(page, -at), EINVAL);
    expect("mprotect odd", at, mprotect(page + 1, PAGE, PROT_READ), EINVAL);
    expect("mprotect empty", at, mprotect(page, 0, PROT_READ), 0);
    expect("mprotect", at, mprotect(page, PAGE, PROT_READ), ENOMEM);
    expect("mprotect exec", at, mprotect(page, PAGE, PROT_READ | PROT_EXEC), ENOMEM);
    expect("mprotect both", at, mprotect(page, PAGE, PROT_READ | PROT_GROWSDOWN | PROT_GROWSUP), EINVAL);
    expect("mprotect unknown", at, mprotect(page, PAGE, 0x100000), EINVAL);
    expect("mprotect wraps", at, mprotect(page, -at, PROT_READ), ENOMEM);
    expect("madvise odd", at, madvise(page + 1, PAGE, MADV_DONTNEED), EINVAL);
    expect("madvise empty", at, madvise(page, 0, MADV_DONTNEED), 0);
    expect("madvise", at, madvise(page, PAGE, MADV_DONTNEED), ENOMEM);
    expect("madvise unknown", at, madvise(page, PAGE, 999), EINVAL);
    expect("mremap odd", at, (long)mremap(page + 1, PAGE, 2 * PAGE, MREMAP_MAYMOVE), EINVAL);
    expect("mremap to nothing", at, (long)mremap(page, PAGE, 0, MREMAP_MAYMOVE), EINVAL);
    expect("mremap flags", at, (long)mremap(page, PAGE, PAGE, 64), EINVAL);
    expect("mremap fixed", at, (long)mremap(page, PAGE, PAGE, MREMAP_FIXED, page + PAGE), EINVAL);
    expect("mremap", at, (long)mremap(page, PAGE, 2 * PAGE, MREMAP_MAYMOVE), EFAULT);
    expect("mremap copies", at, (long)mremap(page, 0, 2 * PAGE, MREMAP_MAYMOVE), EFAULT);
    expect("mincore odd", at, mincore(page + 1, PAGE, (void *)&resident), EINVAL);
    expect("mincore", at, mincore(page, PAGE, (void *)&resident), ENOMEM);
    expect("msync odd", at, msync(page + 1, PAGE, MS_ASYNC), EINVAL);
    expect("msync flags", at, msync(page, PAGE, MS_ASYNC | MS_SYNC), EINVAL);
    expect("msync", at, msync(page, PAGE, MS_ASYNC), ENOMEM);
    expect("mlock", at, mlock(page, PAGE), ENOMEM);
    expect("mlock odd", at, mlock(page + 1, 1), ENOMEM);
    expect("mlock2 flags", at, syscall(SYS_mlock2, page, PAGE, 64), EINVAL);
    expect("munlock", at, munlock(page, PAGE), ENOMEM);
}
int main(void) {
    file = memfd_create("file", 0);
    static unsigned long from[GAPS], to[GAPS];
    unsigned long start, end, before = 1 << 20;
    int gaps = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fscanf(maps, "%lx-%lx %*[^\n]", &start, &end) == 2 && start < 1ul << 47) {
        if (before < start && gaps < GAPS) from[gaps] = before, to[gaps++] = start;
        before = end;
    }
    fclose(maps);
    for (int i = 0; i < gaps; i++) {
        // A stack grows into what is right below it.
        unsigned long last = to[i] - (i == gaps - 1 ? 64 << 20 : 0), step = (last - from[i]) / 64 & -PAGE;
        if (last <= from[i]) continue;
        for (int n = 0; n < 12; n++) check(from[i] + (n * step) % (last - from[i]));
        for (unsigned long n = 1; n <= 48 && n * (64 << 10) < last - from[i]; n++) {
            check(last - n * (64 << 10));
            check(from[i] + n * (64 << 10));
        }
    }
    // What lies before the first gap is changed all the same.
    char *own = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    own[0] = own[2 * PAGE] = 1;
    munmap(own + PAGE, PAGE);
    printf("mprotect %d", mprotect(own, 3 * PAGE, PROT_NONE));
    printf(", write %zd", write(file, own, 1));
    printf(" %zd\n", write(file, own + 2 * PAGE, 1));
    printf("some gaps %d, wrong %d\n", gaps > 2, wrong);
    return 0;
}
