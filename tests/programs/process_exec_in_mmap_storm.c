// A thread execs while others map and unmap; children do so thirty times.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: no-oracle how many of its threads have begun when it executes depends on time
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void *storm(void *arg) {
    for (;;) {
        char *p = mmap(0, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        p[0] = 1;
        munmap(p, 65536);
    }
    return 0;
}
int main(int argc, char **argv) {
    if (argc > 1) return 42;
    int good = 0;
    for (int i = 0; i < 15; i++) {
        if (!fork()) {
            pthread_t t[2];
            for (int k = 0; k < 2; k++) pthread_create(&t[k], 0, storm, 0);
            usleep(i * 100);
            execl("/proc/self/exe", argv[0], "x", (char *)0);
            _exit(1);
        }
        int status;
        wait(&status);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 42;
    }
    printf("%d\n", good);
    return 0;
}
