// exec from a thread other than the first: the new image has the process id,
// one thread, the blocked signal still pending and the ignored one ignored.
// build: cc -O1 -pthread
// run: args first
// run: exit 3
// run: nondeterministic-counts
// run: oracle own-functions
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <dirent.h>
static char **arguments;
static volatile unsigned long n;
static void *spin(void *arg) { for (;;) n++; }
static void *leave(void *arg) {
    char pid[20];
    snprintf(pid, sizeof pid, "%d", getpid());
    while (!n); // The other thread has to be recorded before the exec ends it.
    execl(arguments[0], arguments[0], pid, (char *)0);
    return 0;
}
int main(int argc, char **argv) {
    sigset_t set;
    if (strcmp(argv[1], "first")) {
        printf("pid %d\n", atoi(argv[1]) == getpid() && gettid() == getpid());
        DIR *dir = opendir("/proc/self/task");
        int threads = 0;
        for (struct dirent *e; (e = readdir(dir));) threads += *e->d_name != '.';
        sigpending(&set);
        struct sigaction old, handled;
        sigaction(SIGUSR2, 0, &old);
        sigaction(SIGTERM, 0, &handled);
        printf("threads %d pending %d ignored %d reset %d\n", threads, sigismember(&set, SIGUSR1), old.sa_handler == SIG_IGN, handled.sa_handler == SIG_DFL);
        return 3;
    }
    arguments = argv;
    signal(SIGUSR2, SIG_IGN);
    signal(SIGTERM, (void (*)(int))spin);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, 0);
    kill(getpid(), SIGUSR1);
    pthread_t t;
    pthread_create(&t, 0, spin, 0);
    pthread_create(&t, 0, leave, 0);
    pthread_join(t, 0);
    return 1;
}
