// In a new user namespace, where the program is nobody, it works and execs.
// build: cc -O1
// run: no-oracle what it executes runs natively there and is not counted
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int status;
    if (argc > 1) { printf("exec'd uid %u gid %u\n", getuid(), getgid()); return 3; }
    if (unshare(CLONE_NEWUSER)) { printf("unshare %s\n", strerrorname_np(errno)); return 0; }
    printf("uid %u gid %u\n", getuid(), getgid());
    fflush(stdout);
    if (!fork()) { execl(argv[0], argv[0], "again", (char *)0); printf("exec %s\n", strerrorname_np(errno)); fflush(stdout); _exit(1); }
    wait(&status);
    printf("ended %d\n", WEXITSTATUS(status));
    fflush(stdout);
    if (!fork()) { execlp("sh", "sh", "-c", "echo from a shell", (char *)0); printf("exec %s\n", strerrorname_np(errno)); fflush(stdout); _exit(1); }
    wait(&status);
    printf("ended %d\n", WEXITSTATUS(status));
    return 0;
}
