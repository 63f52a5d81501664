// fexecve, execveat with a directory, with AT_EMPTY_PATH, from a memfd, and
// through /proc/self/exe.
// build: cc -O1 -static
// run: args parent
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
#define CHILD(call) do { fflush(stdout); pid_t pid = fork(); if (!pid) { call; printf("failed: %s\n", strerror(errno)); fflush(stdout); _exit(1); } \
    int s; waitpid(pid, &s, 0); printf("status %d\n", WEXITSTATUS(s)); } while (0)
int main(int argc, char **argv) {
    if (strcmp(argv[1], "parent")) {
        char comm[32] = "";
        int fd = open("/proc/self/comm", O_RDONLY), n = read(fd, comm, 31);
        printf("child %s comm %d\n", argv[1], n > 0);
        return 6;
    }
    int fd = open(argv[0], O_RDONLY | O_CLOEXEC);
    struct stat st;
    fstat(fd, &st);
    CHILD(fexecve(fd, ((char *[]){"x", "fexecve", 0}), environ));
    CHILD(syscall(SYS_execveat, fd, "", ((char *[]){"x", "empty path", 0}), environ, AT_EMPTY_PATH));
    char *slash = strrchr(argv[0], '/');
    *slash = 0;
    int dir = open(argv[0], O_PATH | O_DIRECTORY);
    CHILD(syscall(SYS_execveat, dir, slash + 1, ((char *[]){"x", "directory", 0}), environ, 0));
    *slash = '/';
    int mem = memfd_create("copy", MFD_CLOEXEC);
    off_t at = 0;
    sendfile(mem, fd, &at, st.st_size);
    CHILD(fexecve(mem, ((char *[]){"x", "memfd", 0}), environ));
    CHILD(execl("/proc/self/exe", "x", "proc self exe", (char *)0));
    CHILD(syscall(SYS_execveat, fd, "", ((char *[]){"x", "no flag", 0}), environ, 0));
    CHILD(syscall(SYS_execveat, 999, "a", ((char *[]){"x", "bad fd", 0}), environ, 0));
    CHILD(syscall(SYS_execveat, 999, "", ((char *[]){"x", "bad fd", 0}), environ, AT_EMPTY_PATH));
    return 0;
}
