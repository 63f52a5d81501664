// A program that closed every descriptor, 0 to 2 too, runs on: new code,
// threads, signals, fork, exec, a library; its next descriptor is 0.
// build: cc -O1 -pthread
// run: exit 6
// run: nondeterministic-counts
// run: oracle own-functions
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int got;
static void handler(int sig) { got++; }
static void *work(void *arg) { raise(SIGUSR1); return arg; }
int main(int argc, char **argv) {
    if (argc > 1) return open("/dev/null", O_RDONLY) == 0 ? 11 : 12;
    int keep = dup(1);
    fcntl(keep, F_SETFD, FD_CLOEXEC);
    close_range(0, keep - 1, 0);
    close_range(keep + 1, ~0u, 0);
    int score = 0, status;
    signal(SIGUSR1, handler);
    pthread_t t;
    pthread_create(&t, 0, work, 0);
    pthread_join(t, 0);
    score += got == 1;
    score += open("/dev/null", O_RDONLY) == 0;
    close(0);
    if (!fork()) { close(keep); execl("/proc/self/exe", argv[0], "x", (char *)0); _exit(1); }
    wait(&status);
    score += WEXITSTATUS(status) == 11;
    score += dlopen("libm.so.6", RTLD_NOW) != 0;
    score += open("/proc/self/maps", O_RDONLY) == 0;
    score += dup2(keep, 1) == 1 && write(1, "alive\n", 6) == 6;
    return score;
}
