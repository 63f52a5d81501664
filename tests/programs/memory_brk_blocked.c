// A mapping right behind the heap stops brk exactly there; when it is gone the
// heap grows on. RLIMIT_DATA stops it as well. malloc falls back to mmap.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
int main(void) {
    char *end = sbrk(0);
    char *wall = (char *)(((uintptr_t)end + 4095 & -4096) + 65536);
    char *got = mmap(wall, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    printf("wall %d\n", got == wall);
    printf("up to it %d\n", brk(wall) == 0);
    errno = 0;
    printf("into it %d %s\n", brk(wall + 1), strerrorname_np(errno));
    printf("still %d\n", sbrk(0) == wall);
    char *p[100];
    for (int i = 0; i < 100; i++) { p[i] = malloc(5000); memset(p[i], i, 5000); }
    int bad = 0;
    for (int i = 0; i < 100; i++) { bad += p[i][4999] != i; free(p[i]); }
    printf("malloc bad %d\n", bad);
    munmap(wall, 4096);
    printf("free again %d\n", brk(wall + 65536) == 0 && sbrk(0) == wall + 65536);
    struct rlimit limit = {0, RLIM_INFINITY};
    setrlimit(RLIMIT_DATA, &limit);
    errno = 0;
    printf("limit %d %s\n", brk(wall + 131072), strerrorname_np(errno));
    printf("down %d\n", brk(wall) == 0);
    return 0;
}
