// The vdso moved elsewhere works there; unmapped, signals and system calls
// work without it.
// build: cc -O1
// run: oracle own-functions
// run: no-blocks its mappings are in another order
// run: no-order the same
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile int got;
static void handler(int sig) { got++; }
static char *vdso;
static unsigned long size, vvar, vvar_size;
int main(void) {
    char line[300];
    unsigned long a, b;
    FILE *maps = fopen("/proc/self/maps", "r");
    int lines = 0;
    while (fgets(line, sizeof line, maps)) if (strstr(line, "[vdso]") && sscanf(line, "%lx-%lx", &a, &b) == 2) { vdso = (char *)a; size = b - a; lines++; }
    fclose(maps);
    printf("found %d as told %d\n", lines, (unsigned long)vdso == getauxval(AT_SYSINFO_EHDR));
    if (!vdso) return 0;
    char *room = mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *moved = mremap(vdso, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, room);
    printf("moved %d elf %d\n", moved == room, !memcmp(moved, "\177ELF", 4));
    ElfW(Ehdr) *e = (void *)moved;
    printf("entry %d\n", e->e_type == ET_DYN);
    printf("unmap %d\n", munmap(moved, size));
    struct timespec t;
    printf("clock %ld\n", syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t));
    signal(SIGUSR1, handler);
    for (int i = 0; i < 10; i++) raise(SIGUSR1);
    printf("signals %d\n", got);
    return 0;
}
