// A stack limit of 128 kB: a program starts, its recursion ends where the
// limit says, and threads get stacks of that size.
// build: cc -O0 -pthread
// run: nondeterministic-counts
// run: no-oracle how deep it gets depends on the size of the environment
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static int volatile depth;
static int down(int n) { volatile char pad[4096]; pad[0] = n; depth = n; return down(n + 1) + pad[0]; }
static void handler(int sig) { char line[64]; int n = sprintf(line, "depth %d\n", depth >= 20 && depth <= 31); write(1, line, n); _exit(0); }
static void *work(void *arg) { char pad[60000]; memset(pad, 3, sizeof pad); return (void *)(long)pad[1000]; }
int main(int argc, char **argv) {
    struct rlimit limit = {128 << 10, RLIM_INFINITY};
    if (argc == 1) {
        getrlimit(RLIMIT_STACK, &limit);
        limit.rlim_cur = 128 << 10;
        setrlimit(RLIMIT_STACK, &limit);
        execl("/proc/self/exe", argv[0], "inside", (char *)0);
        return 1;
    }
    getrlimit(RLIMIT_STACK, &limit);
    pthread_attr_t attr;
    size_t size;
    pthread_getattr_default_np(&attr);
    pthread_attr_getstacksize(&attr, &size);
    printf("limit %ld threads %zu\n", (long)limit.rlim_cur, size);
    pthread_t t;
    void *r;
    pthread_create(&t, 0, work, 0);
    pthread_join(t, &r);
    printf("thread %ld\n", (long)r);
    fflush(stdout);
    stack_t alt = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&alt, 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, 0);
    return down(0);
}
