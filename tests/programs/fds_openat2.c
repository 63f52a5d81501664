// openat2: sizes, flags, modes and resolution rules are the kernel's.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static void try(const char *what, int dir, const char *path, void *how, size_t size) {
    int fd = syscall(SYS_openat2, dir, path, how, size);
    printf("%s: %s\n", what, fd < 0 ? strerrorname_np(errno) : fd == 4 ? "4" : "other");
    if (fd >= 0) close(fd);
}
int main(void) {
    struct { struct open_how how; char more[64]; } u;
    int dir = open("/usr", O_RDONLY | O_DIRECTORY);
#define FRESH(f) memset(&u, 0, sizeof u); u.how.flags = f
    FRESH(O_RDONLY);
    try("plain", dir, "bin", &u, sizeof u.how);
    try("short", dir, "bin", &u, 8);
    try("long", dir, "bin", &u, sizeof u);
    u.more[9] = 1;
    try("long and used", dir, "bin", &u, sizeof u);
    try("null", dir, "bin", 0, sizeof u.how);
    FRESH(O_RDONLY | 1ULL << 40); try("unknown flag", dir, "bin", &u, sizeof u.how);
    FRESH(O_RDONLY); u.how.mode = 0644; try("mode without create", dir, "bin", &u, sizeof u.how);
    FRESH(O_RDONLY); u.how.resolve = RESOLVE_BENEATH; try("beneath", dir, "bin", &u, sizeof u.how);
    try("up", dir, "../etc", &u, sizeof u.how);
    try("absolute", dir, "/etc", &u, sizeof u.how);
    FRESH(O_RDONLY); u.how.resolve = RESOLVE_IN_ROOT; try("in root", dir, "../../bin", &u, sizeof u.how);
    FRESH(O_RDONLY); u.how.resolve = RESOLVE_NO_MAGICLINKS; try("magic", AT_FDCWD, "/proc/self/fd/3", &u, sizeof u.how);
    FRESH(O_RDONLY); u.how.resolve = 1 << 20; try("unknown rule", dir, "bin", &u, sizeof u.how);
    FRESH(O_RDONLY); try("missing", dir, "no-such", &u, sizeof u.how);
    return 0;
}
