// mlockall: what is there and what comes is resident, limits count what the
// program has mapped. The capability is given up first, so that they hold.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
static void result(const char *what, int r) { printf("%s: %d %s\n", what, r, r ? strerrorname_np(errno) : "-"); }
static int resident(char *at, int pages) {
    unsigned char seen[64];
    int n = 0;
    mincore(at, pages * 4096L, seen);
    for (int i = 0; i < pages; i++) n += seen[i] & 1;
    return n;
}
static char *map(long size) { return mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); }
int main(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {0};
    syscall(SYS_capget, &header, sets);
    sets[0].effective &= ~(1u << CAP_IPC_LOCK);
    syscall(SYS_capset, &header, sets);
    struct rlimit limit;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < 8 << 20) { puts("too little to lock here"); return 0; }
    limit.rlim_cur = 8 << 20;
    setrlimit(RLIMIT_MEMLOCK, &limit);
    result("no flags", mlockall(0));
    result("unknown flags", mlockall(8));
    result("only on fault", mlockall(4));
    char *before = map(64 * 4096), *none = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("resident %d\n", resident(before, 64));
    result("current", mlockall(MCL_CURRENT));
    printf("resident %d\n", resident(before, 64));
    char *after = map(64 * 4096);
    printf("later %d\n", resident(after, 64));
    result("future", mlockall(MCL_CURRENT | MCL_FUTURE));
    char *last = map(64 * 4096);
    printf("resident %d last %d\n", resident(after, 64), resident(last, 64));
    result("unlock", munlockall());
    char *big = map(80 << 20);
    result("too much", mlockall(MCL_CURRENT));
    munmap(big, 80 << 20);
    result("both on fault", mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT));
    last = map(64 * 4096);
    printf("on fault %d\n", resident(last, 64));
    munlockall();
    limit.rlim_cur = 0;
    setrlimit(RLIMIT_MEMLOCK, &limit);
    result("limit of nothing", mlockall(MCL_CURRENT));
    return none == MAP_FAILED;
}
