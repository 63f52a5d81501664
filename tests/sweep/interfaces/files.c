// Files: scattered writes and reads, a mapped file that is truncated and grown, locks, copies.
#include <sys/uio.h>
int main(void) {
    u64 digest = 0, block[8], back[8];
    int file = memfd_create("file", 0), copy = memfd_create("copy", 0);
    MUST(file);
    for (int i = 0; i < 30; i++) {
        for (int k = 0; k < 8; k++) block[k] = work((u64)(i * 8 + k) & 15);
        struct iovec parts[2] = {{block, 24}, {block + 3, 40}}, into[2] = {{back, 8}, {back + 1, 56}};
        MUST(pwritev(file, parts, 2, i * 64));
        MUST(lseek(file, i * 64, SEEK_SET));
        MUST(readv(file, into, 2));
        digest = mix_bytes(digest, back, sizeof back);
    }
    u64 *mapped = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    mapped[3] = work(77);
    MUST(ftruncate(file, 100));
    MUST(ftruncate(file, 1920));
    loff_t from = 0, to = 0;
    MUST(copy_file_range(file, &from, copy, &to, 1920, 0));
    MUST(pread(copy, back, 64, 64));
    digest = mix_bytes(mix(digest, mapped[3]), back, 64);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
    MUST(fcntl(file, F_SETLK, &lock));
    show("size", (u64)lseek(copy, 0, SEEK_END));
    show("digest", digest);
}
