// With an unlimited stack the kernel lays memory out from below: the program
// starts so, maps, makes threads, recurses, and execs another.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static int down(int n) { volatile char pad[1000]; pad[5] = n; return n ? down(n - 1) + pad[5] : 0; }
static void *work(void *arg) { return (void *)(long)down(50); }
int main(int argc, char **argv) {
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    if (argc == 1) {
        if (setrlimit(RLIMIT_STACK, &limit)) { puts("the limit is hard"); return 0; }
        execl("/proc/self/exe", argv[0], "1", (char *)0);
        return 1;
    }
    getrlimit(RLIMIT_STACK, &limit);
    printf("unlimited %d\n", limit.rlim_cur == RLIM_INFINITY && limit.rlim_max == RLIM_INFINITY);
    char *a = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *b = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(a, 1, 1 << 20);
    memset(b, 2, 1 << 20);
    printf("maps %d %d, below the stack %d\n", a[99], b[99], a < (char *)&limit && b < (char *)&limit);
    pthread_t t;
    void *r;
    pthread_create(&t, 0, work, 0);
    pthread_join(t, &r);
    printf("thread %ld main %d\n", (long)r, down(8000));
    fflush(stdout);
    if (atoi(argv[1]) < 3) {
        char next[8];
        sprintf(next, "%d", atoi(argv[1]) + 1);
        if (!fork()) { execl("/proc/self/exe", argv[0], next, (char *)0); _exit(1); }
        wait(0);
    }
    return 0;
}
