// In a mount namespace whose /proc is hidden by an empty file system: the
// program runs on, runs new code, and execs.
// build: cc -O1
// run: no-oracle what it executes runs natively there and is not counted
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int status;
    if (argc > 1) { printf("exec'd, proc %s\n", access("/proc/self", F_OK) ? strerrorname_np(errno) : "there"); return 3; }
    if (unshare(CLONE_NEWNS) || mount(0, "/", 0, MS_REC | MS_PRIVATE, 0) || mount("none", "/proc", "tmpfs", 0, 0)) { printf("refused %s\n", strerrorname_np(errno)); return 0; }
    printf("proc %s\n", access("/proc/self", F_OK) ? strerrorname_np(errno) : "there");
    int fd = open("/proc/self/maps", O_RDONLY);
    printf("maps %s\n", fd < 0 ? strerrorname_np(errno) : "there");
    char name[64];
    ssize_t n = readlink("/proc/self/exe", name, sizeof name);
    printf("exe %s\n", n < 0 ? strerrorname_np(errno) : "there");
    fflush(stdout);
    if (!fork()) { execv(argv[0], (char *[]){argv[0], "again", 0}); printf("exec %s\n", strerrorname_np(errno)); fflush(stdout); _exit(1); }
    wait(&status);
    printf("ended %d\n", WEXITSTATUS(status));
    fflush(stdout);
    if (!fork()) { execlp("sh", "sh", "-c", "echo from a shell | cat", (char *)0); _exit(1); }
    wait(&status);
    printf("ended %d\n", WEXITSTATUS(status));
    return 0;
}
