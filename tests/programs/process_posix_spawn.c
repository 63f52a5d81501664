// posix_spawn: success, ENOENT and EACCES seen by the parent, file actions and
// signal defaults in the child, the parent's handlers untouched.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static volatile int got;
static void handler(int sig) { got++; }
int main(void) {
    signal(SIGUSR1, handler);
    signal(SIGUSR2, SIG_IGN);
    pid_t pid;
    int ends[2], status;
    char text[100];
    char *sh[] = {"sh", "-c", "echo out; kill -USR1 $$; echo not reached", 0};
    pipe(ends);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawnattr_t attr;
    posix_spawnattr_init(&attr);
    sigset_t set;
    sigfillset(&set);
    posix_spawnattr_setsigdefault(&attr, &set);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
    printf("spawn %d\n", posix_spawn(&pid, "/bin/sh", &actions, &attr, sh, environ));
    waitpid(pid, &status, 0);
    int n = read(ends[0], text, sizeof text);
    printf("%.*s", n, text);
    printf("by signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : -1);
    for (int i = 0; i < 20; i++) {
        int error = posix_spawn(&pid, "./no-such", 0, 0, sh, environ);
        if (error != ENOENT) printf("ENOENT expected, %s\n", strerror(error));
    }
    printf("%s\n", strerror(posix_spawn(&pid, "/etc/passwd", 0, 0, sh, environ)));
    printf("%s\n", strerror(posix_spawnp(&pid, "no-such-name", 0, 0, sh, environ)));
    raise(SIGUSR1);
    printf("handler %d, child left %d\n", got, wait(0) == -1);
    return 0;
}
