// No descriptor but 0, 1, 2 is open at start, the lowest free one is 3, and
// closing everything from 3 up harms nothing.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
static void list(const char *when) {
    DIR *dir = opendir("/proc/self/fd");
    int seen[64] = {0}, n = 0, most = 0;
    for (struct dirent *e; (e = readdir(dir));) if (*e->d_name != '.') { int fd = atoi(e->d_name); if (fd < 64) seen[fd] = 1; else n++; if (fd > most) most = fd; }
    closedir(dir);
    printf("%s:", when);
    for (int i = 0; i < 64; i++) if (seen[i]) printf(" %d", i);
    printf(" others %d\n", n);
}
int main(void) {
    int fd = open("/dev/null", O_RDONLY);
    printf("lowest %d\n", fd);
    close(fd);
    list("start");
    printf("close_range %d\n", close_range(3, ~0u, 0));
    list("closed");
    int pair[2];
    pipe(pair);
    printf("pipe %d %d\n", pair[0], pair[1]);
    for (int i = 3; i < 1024; i++) close(i);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    printf("dup2 %d\n", dup2(1, (int)limit.rlim_cur - 1) == (int)limit.rlim_cur - 1);
    return 0;
}
