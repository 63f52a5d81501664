// The vdso that the auxiliary vector names is a whole ELF file, whose
// functions are found by name and work when called.
// build: cc -O1
// run: oracle own-functions
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    char *base = (char *)getauxval(AT_SYSINFO_EHDR);
    if (!base) { puts("no vdso"); return 0; }
    ElfW(Ehdr) *e = (void *)base;
    ElfW(Phdr) *p = (void *)(base + e->e_phoff);
    ElfW(Dyn) *dynamic = 0;
    long bias = 0;
    printf("elf %d\n", !memcmp(base, "\177ELF", 4));
    for (int i = 0; i < e->e_phnum; i++) {
        if (p[i].p_type == PT_LOAD) bias = (long)base + p[i].p_offset - p[i].p_vaddr;
        if (p[i].p_type == PT_DYNAMIC) dynamic = (void *)(base + p[i].p_offset);
    }
    char *names = 0;
    ElfW(Sym) *symbols = 0;
    for (; dynamic->d_tag; dynamic++) {
        if (dynamic->d_tag == DT_STRTAB) names = (char *)(dynamic->d_un.d_ptr + bias);
        if (dynamic->d_tag == DT_SYMTAB) symbols = (void *)(dynamic->d_un.d_ptr + bias);
    }
    int (*clock)(clockid_t, struct timespec *) = 0;
    long (*cpu)(unsigned *, unsigned *, void *) = 0;
    for (int i = 0; i < 64 && (char *)&symbols[i + 1] <= names; i++) {
        if (!strcmp(names + symbols[i].st_name, "__vdso_clock_gettime")) clock = (void *)(symbols[i].st_value + bias);
        if (!strcmp(names + symbols[i].st_name, "__vdso_getcpu")) cpu = (void *)(symbols[i].st_value + bias);
    }
    struct timespec a, b, c;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &a);
    int r = clock(CLOCK_MONOTONIC, &b);
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &c);
    long ab = (b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec, bc = (c.tv_sec - b.tv_sec) * 1000000000 + c.tv_nsec - b.tv_nsec;
    printf("clock %d between %d\n", r, ab >= 0 && bc >= 0);
    unsigned n = 9999;
    printf("cpu %ld %d\n", cpu(&n, 0, 0), n < 9999);
    printf("bad clock %d\n", clock(9999, &b));
    return 0;
}
