// RLIMIT_FSIZE of zero: writing a file is refused with SIGXFSZ, but what a
// program learns from /proc, threads and exec need no file.
// build: cc -O1 -pthread
// run: oracle own-functions
// run: nondeterministic-counts
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int got;
static void handler(int sig) { got++; }
int main(int argc, char **argv) {
    struct rlimit limit = {0, 0};
    signal(SIGXFSZ, handler);
    setrlimit(RLIMIT_FSIZE, &limit);
    int fd = memfd_create("file", 0);
    long r = write(fd, "x", 1);
    printf("write %ld %s got %d\n", r, r < 0 ? strerrorname_np(errno) : "-", got);
    fd = open("/proc/self/maps", O_RDONLY);
    char text[200];
    printf("maps %d got %d\n", read(fd, text, sizeof text) > 0, got);
    pthread_attr_t attr;
    void *base;
    size_t size;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &base, &size);
    printf("stack %d got %d\n", (char *)base < text && text < (char *)base + size, got);
    fflush(stdout);
    int status;
    if (!fork()) { execlp("sh", "sh", "-c", "echo shell; exit 9", (char *)0); _exit(1); }
    wait(&status);
    printf("ended %x got %d\n", status, got);
    return 0;
}
