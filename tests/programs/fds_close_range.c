// close_range: with close-on-exec, with a table of its own, twice, reversed,
// unknown flags; exec closes what was marked.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static void show(const char *what, long r) { printf("%s %ld %s\n", what, r, r < 0 ? strerrorname_np(errno) : "-"); }
static int count(void) { int n = 0; for (int i = 0; i < 100; i++) n += fcntl(i, F_GETFD) >= 0; return n; }
static void *alone(void *arg) {
    show("unshare", syscall(SYS_close_range, 10, ~0u, CLOSE_RANGE_UNSHARE));
    return (void *)(long)count();
}
int main(int argc, char **argv) {
    if (argc > 1) { printf("after exec %d\n", count()); return 0; }
    for (int i = 0; i < 20; i++) dup(1);
    printf("open %d\n", count());
    show("reversed", syscall(SYS_close_range, 20, 10, 0));
    show("bad flag", syscall(SYS_close_range, 3, 10, 64));
    pthread_t t;
    void *r;
    pthread_create(&t, 0, alone, 0);
    pthread_join(t, &r);
    printf("thread %ld, here %d\n", (long)r, count());
    show("some", syscall(SYS_close_range, 5, 7, 0));
    show("again", syscall(SYS_close_range, 5, 7, 0));
    printf("open %d lowest %d\n", count(), dup(1));
    show("on exec", syscall(SYS_close_range, 12, ~0u, CLOSE_RANGE_CLOEXEC));
    printf("open %d flags %d %d\n", count(), fcntl(11, F_GETFD), fcntl(12, F_GETFD));
    fflush(stdout);
    execl("/proc/self/exe", argv[0], "x", (char *)0);
    return 1;
}
