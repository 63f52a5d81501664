// nanosleep interrupted: by stop and continue it goes on to its time; by a
// handler it tells the rest; absolute sleeps tell nothing.
// build: cc -O1
// run: oracle own-functions
// run: nondeterministic-counts
// run: no-order its signals come when time has passed
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void handler(int sig) {}
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000 + t.tv_nsec / 1000000; }
static volatile int *sleeps;
// Until the child has begun so many sleeps, and is in one.
static void until(pid_t pid, int count) {
    char path[64], text[256];
    do {
        usleep(2000);
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        FILE *file = fopen(path, "r");
        text[file ? fread(text, 1, sizeof text - 1, file) : 0] = 0;
        if (file) fclose(file);
    } while (*sleeps < count || !strstr(text, ") S "));
    usleep(40000);
}
int main(void) {
    sleeps = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    if (!pid) {
        long start = now();
        struct timespec t = {0, 800000000}, rest = {7, 7};
        int r = nanosleep(&t, &rest);
        _exit(r == 0 && now() - start >= 800 && rest.tv_sec == 7 ? 5 : 6);
    }
    for (int i = 0; i < 4; i++) { usleep(8000); kill(pid, SIGSTOP); waitpid(pid, 0, WUNTRACED); usleep(2000); kill(pid, SIGCONT); }
    int status;
    waitpid(pid, &status, 0);
    printf("stopped and continued %d\n", WEXITSTATUS(status));
    for (int restart = 0; restart < 2; restart++) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = restart ? SA_RESTART : 0};
        sigaction(SIGUSR1, &action, 0);
        fflush(stdout);
        *sleeps = 0;
        pid = fork();
        if (!pid) {
            struct timespec t = {5, 0}, rest = {7, 7};
            *sleeps = 1;
            int r = nanosleep(&t, &rest);
            printf("relative %d %s rest %d\n", r, strerrorname_np(errno), rest.tv_sec == 4 || rest.tv_sec == 3);
            clock_gettime(CLOCK_MONOTONIC, &t);
            t.tv_sec += 5;
            rest.tv_sec = 7;
            *sleeps = 2;
            r = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, &rest);
            printf("absolute %s rest %ld\n", strerrorname_np(r), (long)rest.tv_sec);
            fflush(stdout);
            _exit(0);
        }
        until(pid, 1);
        kill(pid, SIGUSR1);
        until(pid, 2);
        kill(pid, SIGUSR1);
        waitpid(pid, &status, 0);
        printf("ended %x\n", status);
    }
    return 0;
}
