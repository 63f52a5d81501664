// /proc/self/{exe,cmdline,comm,auxv,environ} show the program, not a tool;
// readlink does not write behind its result.
// build: cc -O1
// run: args alpha beta
// run: oracle own-functions
// run: no-blocks its mappings are in another order
// run: no-order its environment may be in another order
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static int slurp(const char *path, char *buf, int size) {
    int fd = open(path, O_RDONLY), n = 0, r;
    while ((r = read(fd, buf + n, size - n)) > 0) n += r;
    close(fd);
    return n;
}
int main(int argc, char **argv, char **envp) {
    char link[PATH_MAX], real[PATH_MAX], buf[65536], small[8];
    int n = readlink("/proc/self/exe", link, sizeof link - 1);
    link[n] = 0;
    printf("exe %d\n", strcmp(link, realpath(argv[0], real)) == 0);
    memset(small, '#', sizeof small);
    printf("short %zd %c\n", readlink("/proc/self/exe", small, 4), small[4]);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/exe", getpid());
    printf("by pid %d\n", readlinkat(AT_FDCWD, path, real, sizeof real) == n && !memcmp(real, link, n));
    struct stat a, b;
    printf("stat %d\n", !stat("/proc/self/exe", &a) && !stat(argv[0], &b) && a.st_ino == b.st_ino);
    int fd = open("/proc/self/exe", O_RDONLY);
    printf("open %d\n", fd >= 0 && !fstat(fd, &a) && a.st_ino == b.st_ino);
    n = slurp("/proc/self/cmdline", buf, sizeof buf);
    int at = 0, ok = 1;
    for (int i = 0; i < argc; i++) { ok &= at < n && !strcmp(buf + at, argv[i]); at += strlen(argv[i]) + 1; }
    printf("cmdline %d %d\n", ok, at == n);
    n = slurp("/proc/self/comm", buf, sizeof buf);
    printf("comm %.*s", n, buf);
    n = slurp("/proc/self/environ", buf, sizeof buf);
    at = 0, ok = 1;
    for (char **e = envp; *e; e++) { ok &= at < n && !strcmp(buf + at, *e); at += strlen(*e) + 1; }
    printf("environ %d %d\n", ok, at == n);
    ok = 1;
    for (char **e = envp; *e; e++) ok &= strncasecmp(*e, "EVERYPATH", 9) != 0 || strstr(*e, "EVERYPATH_ONLY") || strstr(*e, "EVERYPATH_BIN") || strstr(*e, "EVERYPATH_NATIVE");
    printf("no foreign variable %d\n", ok);
    return 0;
}
