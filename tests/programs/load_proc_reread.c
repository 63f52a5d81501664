// Files of /proc/self that stay open say what is so when they are read from the beginning again;
// numa_maps, smaps_rollup and syscall show no tool.
// build: cc -O1 -pie -fPIE -pthread
// run: nondeterministic-counts
// run: oracle own-functions
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
static char text[1 << 20];
static int names(int fd, const char *name) {
    int n = 0, r;
    while ((r = read(fd, text + n, sizeof text - 1 - n)) > 0) n += r;
    text[n < 0 ? 0 : n] = 0;
    return !!strstr(text, name);
}
static unsigned long number(const char *name) {
    char *at = strstr(text, name);
    return at ? strtoul(at + strlen(name), 0, 10) : 0;
}
static void handler(int signal) { (void)signal; }
static unsigned long caught(int fd, int how) {
    struct iovec to = {text, sizeof text - 1};
    int n = how == 0 ? pread(fd, text, sizeof text - 1, 0) : how == 1 ? preadv(fd, &to, 1, 0)
        : (lseek(fd, 0, SEEK_SET), how == 2 ? read(fd, text, sizeof text - 1) : readv(fd, &to, 1));
    text[n < 0 ? 0 : n] = 0;
    char *at = strstr(text, "SigCgt:");
    return at ? strtoul(at + 8, 0, 16) : 0;
}
static void status(void) {
    int fd = open("/proc/self/status", O_RDONLY);
    for (int how = 0; how < 4; how++) {
        signal(SIGUSR1 + (how & 1) * 2, how < 2 ? handler : SIG_DFL);
        printf("caught %lx\n", caught(fd, how));
    }
    // In the middle of a text nothing changes.
    lseek(fd, 0, SEEK_SET);
    int n = read(fd, text, 64);
    signal(SIGUSR1, handler);
    printf("middle %d, %d\n", n, names(fd, "SigCgt:\t0000000000000000"));
    close(fd);
    // The descriptor is another file's now.
    int other = open("/dev/zero", O_RDONLY);
    printf("other %d %d\n", other == fd, read(other, text, 8) == 8 && !text[0]);
    close(other);
}
static void maps(void) {
    int fd = open("/proc/self/maps", O_RDONLY), rollup = open("/proc/self/smaps_rollup", O_RDONLY);
    int numa = open("/proc/self/numa_maps", O_RDONLY);
    char line[64];
    names(rollup, "Rss");
    unsigned long before = number("\nRss:");
    printf("small %d, rollup %d\n", before > 0 && before < 16 << 10, !!strstr(text, "[rollup]\n"));
    char *memory = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int page = 0; page < 2048; page++) memory[page << 12] = 1;
    mprotect(memory + (4 << 20), 4 << 20, PROT_READ);
    snprintf(line, sizeof line, "%08lx-%08lx r--p", (long)memory + (4 << 20), (long)memory + (8 << 20));
    printf("mapped %d\n", names(fd, line));
    lseek(rollup, 0, SEEK_SET);
    names(rollup, "Rss");
    unsigned long after = number("\nRss:");
    printf("8 MB more %d, anonymous %d\n", after >= before + (8 << 10) && after < before + (9 << 10),
           number("\nAnonymous:") >= 8 << 10 && number("\nPss_Anon:") >= 8 << 10 && number("\nPss_Shmem:") < 64);
    snprintf(line, sizeof line, "%08lx default anon=1024 dirty=1024", (long)memory + (4 << 20));
    printf("nodes %d\n", names(numa, line));
    munmap(memory, 8 << 20);
    lseek(fd, 0, SEEK_SET);
    snprintf(line, sizeof line, "%08lx r--p", (long)memory + (8 << 20));
    printf("unmapped %d\n", !names(fd, line));
    close(fd); close(numa); close(rollup);
    // As many lines as mappings, but for the page of old system calls.
    int lines = 0, mappings = 0;
    names(fd = open("/proc/self/numa_maps", O_RDONLY), "");
    close(fd);
    for (char *at = text; *at; at++) lines += *at == '\n';
    names(fd = open("/proc/self/maps", O_RDONLY), "");
    close(fd);
    for (char *at = text; *at; at++) mappings += *at == '\n';
    printf("lines %d\n", lines == mappings - !!strstr(text, "[vsyscall]"));
}
static int tid, pipes[2];
static void *thread(void *sp) {
    char byte;
    *(void **)sp = __builtin_frame_address(0);
    __atomic_store_n(&tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
    syscall(SYS_read, pipes[0], &byte, 1L);
    return 0;
}
static void calls(void) {
    char path[64], expected[256];
    unsigned long nr, args[6], sp, pc;
    pthread_t id;
    void *frame = 0;
    int fd = open("/proc/thread-self/syscall", O_RDONLY);
    long n = pread(fd, text, 1000, 0);
    text[n < 0 ? 0 : n] = 0;
    snprintf(expected, sizeof expected, "%d 0x%x 0x%lx 0x3e8 0x0 ", SYS_pread64, fd, (long)text);
    close(fd);
    int got = sscanf(text, "%lu %lx %lx %lx %lx %lx %lx %lx %lx", &nr, args, args + 1, args + 2, args + 3, args + 4, args + 5, &sp, &pc);
    unsigned char *code = (unsigned char *)pc;
    printf("own %d %d %d %d\n", !strncmp(text, expected, strlen(expected)), got, code[-2] == 0x0f && code[-1] == 0x05,
           sp < (unsigned long)&sp + 4096 && sp > (unsigned long)&sp - 65536);
    if (pipe(pipes)) return;
    pthread_create(&id, 0, thread, &frame);
    while (!__atomic_load_n(&tid, __ATOMIC_ACQUIRE));
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
    fd = open(path, O_RDONLY);
    // Until it is in the call.
    do {
        usleep(1000);
        n = pread(fd, text, 1000, 0);
        text[n < 0 ? 0 : n] = 0;
        got = sscanf(text, "%lu %lx %lx %lx %lx %lx %lx %lx %lx", &nr, args, args + 1, args + 2, args + 3, args + 4, args + 5, &sp, &pc);
    } while (got != 9 || nr != SYS_read);
    code = (unsigned char *)pc;
    printf("other %d %d %d\n", args[0] == (unsigned long)pipes[0] && args[2] == 1, code[-2] == 0x0f && code[-1] == 0x05,
           sp < (unsigned long)frame && sp > (unsigned long)frame - 65536);
    if (write(pipes[1], "", 1) != 1) return;
    pthread_join(id, 0);
}
int main(void) {
    status();
    maps();
    calls();
    return 0;
}
