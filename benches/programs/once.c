// Code that runs once: `once N THREADS` writes N functions and calls each of them
// once, while other threads sleep in a system call.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
enum { SIZE = 32 };
static int ends[2];
static void *sleeps(void *unused) {
    char byte;
    return read(ends[0], &byte, 1) == 0 ? unused : 0;
}
int main(int argc, char **argv) {
    unsigned long count = argc > 1 ? strtoul(argv[1], 0, 0) : 1000, threads = argc > 2 ? strtoul(argv[2], 0, 0) : 0;
    pthread_t sleepers[16];
    if (threads > 16 || pipe(ends))
        return 2;
    for (unsigned long i = 0; i < threads; i++)
        pthread_create(&sleepers[i], 0, sleeps, 0);
    unsigned char *code = mmap(0, count * SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 0; i < count; i++) {
        // mov eax, i; add eax, 1; xor eax, 2; ret
        unsigned char *at = code + (size_t)i * SIZE;
        memcpy(at, "\xb8....\x05\1\0\0\0\x35\2\0\0\0\xc3", 16);
        memcpy(at + 1, &i, 4);
    }
    mprotect(code, count * SIZE, PROT_READ | PROT_EXEC);
    unsigned sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum = sum * 31 + ((unsigned (*)(void))(code + (size_t)i * SIZE))();
    close(ends[1]);
    for (unsigned long i = 0; i < threads; i++)
        pthread_join(sleepers[i], 0);
    printf("%08x\n", sum);
    return 0;
}
