// prctl and pthread names: comm is the file's name, changes are seen in /proc,
// argv[0] may be overwritten and /proc/self/cmdline shows that.
// build: cc -O1 -pthread
// run: args some-argument
// run: oracle own-functions
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
static void show(const char *path) { char b[200]; int fd = open(path, O_RDONLY), n = read(fd, b, sizeof b); for (int i = 0; i < n; i++) if (!b[i]) b[i] = '|'; printf("%.*s", n, b); if (n && b[n - 1] != '\n') printf("\n"); close(fd); }
int main(int argc, char **argv) {
    char name[20] = "";
    prctl(PR_GET_NAME, name);
    printf("%s\n", name);
    show("/proc/self/comm");
    show("/proc/thread-self/comm");
    prctl(PR_SET_NAME, "renamed");
    show("/proc/self/comm");
    pthread_setname_np(pthread_self(), "again");
    show("/proc/self/comm");
    memset(argv[1], 'X', strlen(argv[1]));
    char line[8192];
    int fd = open("/proc/self/cmdline", O_RDONLY), n = read(fd, line, sizeof line);
    printf("%s %d\n", line + strlen(line) + 1, line[n - 1] == 0);
    return 0;
}
