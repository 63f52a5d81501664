// Four threads start programs at the same time, good ones and missing ones,
// each by posix_spawn; every result comes back to the thread that asked.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static char *own;
static void *work(void *arg) {
    long good = 0;
    char status_text[12];
    sprintf(status_text, "%ld", (long)arg + 20);
    char *argv[] = {own, status_text, 0};
    for (int i = 0; i < 6; i++) {
        pid_t pid;
        int status;
        if (posix_spawn(&pid, "./missing", 0, 0, argv, environ) == ENOENT) good++;
        if (posix_spawn(&pid, "/proc/self/exe", 0, 0, argv, environ)) continue;
        if (waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == (long)arg + 20) good += 100;
    }
    return (void *)good;
}
int main(int argc, char **argv) {
    if (argc > 1) return atoi(argv[1]);
    own = argv[0];
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++) { void *r; pthread_join(t[i], &r); printf("%ld\n", (long)r); }
    return 0;
}
