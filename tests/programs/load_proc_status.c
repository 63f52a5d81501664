// /proc/self/{status,stat,statm,smaps,maps} show the program's signals, sizes, code and stack,
// and no memory or handler of a tool; also by relative paths, by number and of a thread.
// build: cc -O1 -pie -fPIE -pthread
// run: nondeterministic-counts
// run: oracle own-functions
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static char text[1 << 20], other[1 << 20];
static int slurp(int fd, char *to) {
    int n = 0, r;
    while ((r = read(fd, to + n, sizeof text - 1 - n)) > 0) n += r;
    to[n] = 0;
    close(fd);
    return n;
}
static int slurp_path(const char *path, char *to) { return slurp(open(path, O_RDONLY), to); }
static void line(const char *name) {
    char *at = strstr(text, name);
    printf("%.*s\n", at ? (int)strcspn(at, "\n") : 7, at ? at : "missing");
}
static unsigned long number(const char *name) {
    char *at = strstr(text, name);
    return at ? strtoul(at + strlen(name), 0, 0) : 0;
}
static void handler(int signal) { (void)signal; }
static void masks(const char *path) {
    slurp_path(path, text);
    line("SigPnd:"); line("ShdPnd:"); line("SigBlk:"); line("SigIgn:"); line("SigCgt:");
}
static void *thread(void *unused) {
    char path[64];
    sigset_t set;
    sigemptyset(&set); sigaddset(&set, SIGSEGV); sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    masks("/proc/thread-self/status");
    snprintf(path, sizeof path, "/proc/self/task/%ld/status", syscall(SYS_gettid));
    masks(path);
    return unused;
}
static void signals(void) {
    sigset_t set;
    pthread_t other_thread;
    masks("/proc/self/status");
    signal(SIGSEGV, handler); signal(SIGUSR1, handler); signal(SIGTRAP, SIG_IGN); signal(SIGHUP, SIG_IGN);
    sigemptyset(&set); sigaddset(&set, SIGBUS); sigaddset(&set, SIGTERM); sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, 0);
    raise(SIGBUS); raise(SIGUSR1);
    masks("/proc/self/status");
    slurp_path("/proc/self/stat", text);
    unsigned long f[52];
    char *at = strrchr(text, ')') + 3;
    for (int i = 4; i < 52; i++) at = strchr(at, ' ') + 1, f[i] = strtoul(at, 0, 10);
    printf("stat %lu %lu %lu %lu\n", f[31], f[32], f[33], f[34]);
    printf("in code %d, stack %d, heap above code %d\n", f[26] <= (unsigned long)signals && (unsigned long)signals < f[27],
           (unsigned long)&set < f[28] && (unsigned long)&set > f[28] - (1 << 20), f[47] > 0);
    printf("data %d\n", f[45] <= f[46]);
    pthread_create(&other_thread, 0, thread, 0);
    pthread_join(other_thread, 0);
}
// Mappings as "start-end rights", one a line, of both texts; sizes of smaps.
static void sizes(void) {
    unsigned long total = 0, lo, hi, sum = 0, rss = 0;
    char rights[5] = "", *next;
    int wx = 0, same = 1, flags = 1, in = 0;
    char *memory = mmap(0, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int page = 0; page < 2048; page++) memory[page << 12] = 1;
    // Nothing is mapped between these.
    slurp_path("/proc/self/maps", text);
    slurp_path("/proc/self/smaps", other);
    next = text;
    for (char *start = other; *start; start = strchr(start, '\n') + 1) {
        // One line: sscanf looks at all of a text.
        char at[512] = "";
        memcpy(at, start, strchr(start, '\n') - start);
        if (!strncmp(at, "Size:", 5)) sum += rights[0] == '-' && rights[2] == 'x' ? 0 : strtoul(at + 5, 0, 10);
        else if (!strncmp(at, "Rss:", 4)) rss = in ? strtoul(at + 4, 0, 10) : rss;
        else if (!strncmp(at, "VmFlags:", 8)) flags &= !!strstr(at, " ex ") == (rights[2] == 'x');
        else if (at[0] < 'A' || at[0] > 'Z') {
            int length = strlen(at);
            same &= !strncmp(at, next, length) && next[length] == '\n';
            next += length + 1;
            sscanf(at, "%lx-%lx %4s", &lo, &hi, rights);
            if (strcmp(rights, "--xp")) total += hi - lo;
            wx |= rights[1] == 'w' && rights[2] == 'x';
            in = lo <= (unsigned long)memory && (unsigned long)memory < hi;
        }
    }
    printf("same mappings %d, sizes %d, flags %d, wx %d\n", same && !*next, total == sum << 10, flags, wx);
    printf("8 MB of 64 are there %d\n", rss >= 8 << 10 && rss < 16 << 10);
    slurp_path("/proc/self/statm", text);
    unsigned long statm[7];
    sscanf(text, "%lu %lu %lu %lu %lu %lu %lu", statm, statm + 1, statm + 2, statm + 3, statm + 4, statm + 5, statm + 6);
    slurp_path("/proc/self/status", text);
    printf("VmSize %d, statm %d\n", number("VmSize:") == total >> 10, statm[0] == total >> 12);
    // 64 MB, at most two stacks and heaps and the C library.
    printf("small %d %d\n", number("VmSize:") < 300 << 10, number("VmRSS:") < 40 << 10 && number("VmRSS:") >= 8 << 10);
    printf("code %d\n", number("VmExe:") <= 16 && number("VmLib:") > 100 && statm[3] * 4 == number("VmExe:"));
    slurp_path("/proc/self/maps", text);
    char self[4096] = "";
    readlink("/proc/self/exe", self, sizeof self - 1);
    char *own = strstr(text, self), *libc = strstr(text, "/libc"), *stack = strstr(text, "[stack]");
    printf("program, library, stack %d\n", own && libc && stack && own < libc && libc < stack);
}
static void relative(void) {
    int directory = open("/proc/self", O_RDONLY | O_DIRECTORY);
    char path[64];
    slurp(openat(directory, "status", O_RDONLY), text);
    line("SigCgt:");
    snprintf(path, sizeof path, "/proc/%d/status", getpid());
    slurp_path(path, text);
    line("SigCgt:");
    if (chdir("/proc/self")) return;
    slurp_path("status", text);
    line("SigCgt:");
    slurp_path("maps", text);
    printf("stack %d\n", !!strstr(text, "[stack]"));
    if (chdir("/")) return;
    printf("no such file %d\n", open("status", O_RDONLY));
}
int main(void) {
    signals();
    sizes();
    relative();
    return 0;
}
