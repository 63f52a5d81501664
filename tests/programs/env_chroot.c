// A static program that changes its root to an empty directory with nothing
// but itself runs on and execs itself there.
// build: cc -O1 -static
// run: no-oracle the way to a temporary name is random
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int status;
    if (argc > 1) { printf("exec'd as %s in %s\n", argv[0], getcwd((char[100]){0}, 100)); return 3; }
    char where[] = "root.XXXXXX", name[100];
    if (!mkdtemp(where)) return 1;
    snprintf(name, sizeof name, "%s/program", where);
    if (link(argv[0], name)) return 2;
    pid_t pid = fork();
    if (!pid) {
        if (chroot(where)) { printf("chroot %s\n", strerrorname_np(errno)); fflush(stdout); _exit(0); }
        chdir("/");
        printf("inside %d %d\n", access("/program", X_OK), access("/proc", F_OK));
        fflush(stdout);
        if (!fork()) { execl("/program", "again", "again", (char *)0); printf("exec %s\n", strerrorname_np(errno)); fflush(stdout); _exit(1); }
        wait(&status);
        printf("ended %d\n", WEXITSTATUS(status));
        fflush(stdout);
        execl("/missing", "again", (char *)0);
        printf("missing %s\n", strerrorname_np(errno));
        fflush(stdout);
        _exit(5);
    }
    waitpid(pid, &status, 0);
    unlink(name);
    rmdir(where);
    printf("child %d\n", WEXITSTATUS(status));
    return 0;
}
