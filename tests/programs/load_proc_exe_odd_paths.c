// /proc/self/exe by every way: relative, through a directory descriptor, by
// task, for writing, with openat2 and its flags, without following, by statx,
// O_PATH.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
static char real[4096];
static struct stat own;
static void link_is(const char *what, int dir, const char *path) {
    char text[4096];
    memset(text, '#', sizeof text);
    long n = readlinkat(dir, path, text, sizeof text);
    printf("%s: %s\n", what, n < 0 ? strerrorname_np(errno) : n == (long)strlen(real) && !memcmp(text, real, n) && text[n] == '#' ? "own" : "other");
}
static void file_is(const char *what, int fd) {
    struct stat s;
    printf("%s: %s\n", what, fd < 0 ? strerrorname_np(errno) : fstat(fd, &s) ? "no stat" : s.st_ino == own.st_ino && s.st_dev == own.st_dev ? "own" : S_ISLNK(s.st_mode) ? "link" : "other");
    if (fd >= 0) close(fd);
}
int main(int argc, char **argv) {
    char path[100];
    realpath(argv[0], real);
    stat(real, &own);
    int self = open("/proc/self", O_RDONLY | O_DIRECTORY), proc = open("/proc", O_RDONLY | O_DIRECTORY);
    link_is("plain", AT_FDCWD, "/proc/self/exe");
    link_is("thread-self", AT_FDCWD, "/proc/thread-self/exe");
    snprintf(path, sizeof path, "/proc/%d/task/%d/exe", getpid(), getpid());
    link_is("task", AT_FDCWD, path);
    link_is("double slash", AT_FDCWD, "/proc//self//exe");
    link_is("dots", AT_FDCWD, "/proc/./self/../self/exe");
    link_is("directory", self, "exe");
    link_is("proc directory", proc, "self/exe");
    file_is("open", open("/proc/self/exe", O_RDONLY));
    file_is("open for writing", open("/proc/self/exe", O_RDWR));
    file_is("no follow", open("/proc/self/exe", O_RDONLY | O_NOFOLLOW));
    file_is("path", open("/proc/self/exe", O_PATH));
    file_is("path no follow", open("/proc/self/exe", O_PATH | O_NOFOLLOW));
    file_is("at directory", openat(self, "exe", O_RDONLY));
    struct open_how how = {.flags = O_RDONLY};
    file_is("openat2", syscall(SYS_openat2, AT_FDCWD, "/proc/self/exe", &how, sizeof how));
    how.resolve = RESOLVE_NO_MAGICLINKS;
    file_is("openat2 no magic", syscall(SYS_openat2, AT_FDCWD, "/proc/self/exe", &how, sizeof how));
    how.resolve = RESOLVE_NO_SYMLINKS;
    file_is("openat2 no links", syscall(SYS_openat2, AT_FDCWD, "/proc/self/exe", &how, sizeof how));
    how.resolve = RESOLVE_NO_XDEV;
    file_is("openat2 no other device", syscall(SYS_openat2, AT_FDCWD, "/proc/self/exe", &how, sizeof how));
    struct stat s;
    printf("stat: %d\n", !stat("/proc/self/exe", &s) && s.st_ino == own.st_ino);
    printf("lstat: %s\n", lstat("/proc/self/exe", &s) ? "failed" : S_ISLNK(s.st_mode) ? "link" : "file");
    printf("fstatat no follow: %s\n", fstatat(AT_FDCWD, "/proc/self/exe", &s, AT_SYMLINK_NOFOLLOW) ? "failed" : S_ISLNK(s.st_mode) ? "link" : "file");
    struct statx x;
    printf("statx: %s\n", statx(AT_FDCWD, "/proc/self/exe", 0, STATX_BASIC_STATS, &x) ? "failed" : S_ISLNK(x.stx_mode) ? "link" : "file");
    printf("statx no follow: %s\n", statx(AT_FDCWD, "/proc/self/exe", AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &x) ? "failed" : S_ISLNK(x.stx_mode) ? "link" : "file");
    chdir("/proc/self");
    link_is("relative", AT_FDCWD, "exe");
    file_is("relative open", open("exe", O_RDONLY));
    printf("zero size: %ld %s\n", (long)readlink("/proc/self/exe", path, 0), strerrorname_np(errno));
    printf("bad buffer: %ld %s\n", (long)syscall(SYS_readlink, "/proc/self/exe", 8, 100), strerrorname_np(errno));
    return 0;
}
