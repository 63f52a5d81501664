// A child in a new PID namespace is process 1, whatever /proc still says: it
// forks, makes threads, signals itself, and execs.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int got;
static void handler(int sig) { got++; }
static void *work(void *arg) { return (void *)(long)syscall(SYS_gettid); }
static void look(const char *who) {
    pthread_t t;
    void *tid;
    pthread_create(&t, 0, work, 0);
    pthread_join(t, &tid);
    signal(SIGUSR1, handler);
    got = 0;
    kill(getpid(), SIGUSR1);
    raise(SIGUSR1);
    printf("%s pid %d parent %d thread %ld got %d\n", who, getpid(), getppid(), (long)tid, got);
    fflush(stdout);
}
int main(int argc, char **argv) {
    int status;
    if (argc > 1) { look("exec'd"); return 12; }
    if (unshare(CLONE_NEWPID)) { printf("unshare %s\n", strerrorname_np(errno)); return 0; }
    pid_t pid = fork();
    if (!pid) {
        look("first");
        if (!fork()) { look("second"); execl(argv[0], argv[0], "again", (char *)0); _exit(1); }
        wait(&status);
        printf("second ended %d\n", WEXITSTATUS(status));
        fflush(stdout);
        pid_t killed = fork();
        if (!killed) for (;;) pause();
        kill(killed, SIGKILL);
        wait(&status);
        printf("third killed %d pid %d\n", WTERMSIG(status), killed);
        fflush(stdout);
        _exit(11);
    }
    waitpid(pid, &status, 0);
    printf("first ended %d\n", WEXITSTATUS(status));
    return 0;
}
