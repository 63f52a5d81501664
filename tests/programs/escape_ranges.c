// A program that asks about, and does things to, every range that is free by
// /proc/self/maps, where a translator may live: the answers are those of free
// memory, and it runs on afterwards.
// build: cc -O1
// run: no-oracle what it finds to try depends on what else is mapped
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
enum { MOST = 500 };
static uintptr_t starts[MOST], ends[MOST];
static int count;
// The gaps between the mappings of `file`, from the lowest to the highest.
static void gaps(const char *file) {
    char line[600];
    uintptr_t start, end, last = 0;
    FILE *maps = fopen(file, "r");
    for (count = 0; count < MOST && fgets(line, sizeof line, maps);) {
        sscanf(line, "%lx-%lx", &start, &end);
        if (end >> 47) break;
        // Not what the heap and the stack may grow into.
        if (strstr(line, "[stack]")) start -= 1 << 30;
        if (last && last < start) { starts[count] = last; ends[count++] = start; }
        last = strstr(line, "[heap]") ? end + (1 << 30) : end;
    }
    fclose(maps);
}
static const char *name(long result) { return result < 0 ? strerrorname_np(errno) : "0"; }
static unsigned fresh(unsigned x) { for (int i = 0; i < 1000; i++) x = (x ^ x >> 3) * 2654435761u; return x; }
static volatile int got;
static void handler(int sig) { got++; }
static unsigned char resident[1 << 20];
static void each(const char *what, long (*call)(char *, size_t)) {
    // Every answer once: they are all the same.
    char seen[400] = "";
    for (int i = 0; i < count; i++) {
        size_t len = ends[i] - starts[i];
        for (int part = 0; part < 3; part++) {
            char *at = (char *)starts[i] + (part == 0 ? 0 : part == 1 ? len / 2 & -4096 : len - 4096);
            const char *answer = name(call(at, 4096));
            if (!strstr(seen, answer)) { strcat(seen, answer); strcat(seen, " "); }
        }
    }
    printf("%s: %s\n", what, seen);
}
static long ask(char *at, size_t len) { return mincore(at, len, resident); }
static long synchronise(char *at, size_t len) { return msync(at, len, MS_ASYNC); }
static long lock(char *at, size_t len) { return mlock(at, len); }
static long lock2(char *at, size_t len) { return mlock2(at, len, MLOCK_ONFAULT); }
static long unlock(char *at, size_t len) { return munlock(at, len); }
static long readable(char *at, size_t len) { return mprotect(at, len, PROT_READ); }
static long runnable(char *at, size_t len) { return mprotect(at, len, PROT_READ | PROT_EXEC); }
static long everything(char *at, size_t len) { return mprotect(at, len, PROT_READ | PROT_WRITE | PROT_EXEC); }
static long nothing(char *at, size_t len) { return mprotect(at, len, PROT_NONE); }
static long drop(char *at, size_t len) { return madvise(at, len, MADV_DONTNEED); }
static long populate(char *at, size_t len) { return madvise(at, len, MADV_WILLNEED); }
static long move(char *at, size_t len) { return mremap(at, len, len * 2, MREMAP_MAYMOVE) == MAP_FAILED ? -1 : 0; }
static long unmap(char *at, size_t len) { return munmap(at, len); }
int main(void) {
    signal(SIGUSR1, handler);
    gaps("/proc/self/maps");
    printf("some %d\n", count > 0);
    for (int round = 0; round < 2; round++) {
        each("mincore", ask);
        each("msync", synchronise);
        each("mlock", lock);
        each("mlock2", lock2);
        each("munlock", unlock);
        each("mprotect r", readable);
        each("mprotect rx", runnable);
        each("mprotect rwx", everything);
        each("mprotect none", nothing);
        each("madvise dontneed", drop);
        each("madvise willneed", populate);
        each("mremap", move);
        each("munmap", unmap);
        // All of it at once, over everything that lives in the gaps.
        for (int i = 0; i < count; i++) if (munmap((void *)starts[i], ends[i] - starts[i])) printf("munmap %s\n", name(-1));
    }
    printf("%08x\n", fresh(5));
    raise(SIGUSR1);
    int status;
    fflush(stdout);
    if (!fork()) { raise(SIGUSR1); _exit(got); }
    wait(&status);
    printf("signals %d child %d\n", got, WEXITSTATUS(status));
    return system("echo a shell");
}
