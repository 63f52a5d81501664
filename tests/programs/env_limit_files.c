// RLIMIT_NOFILE as low as the open descriptors allow: programs start, and one
// that uses up its descriptors sees exactly as many as the limit says.
// build: cc -O1
// run: no-oracle what it executes runs natively there and is not counted
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static unsigned fresh(unsigned x) { for (int i = 0; i < 1000; i++) x = (x ^ x >> 3) * 2654435761u; return x; }
int main(int argc, char **argv) {
    struct rlimit limit;
    if (argc == 1) {
        for (int n = 4; n <= 64; n *= 4) {
            char text[8];
            sprintf(text, "%d", n);
            fflush(stdout);
            if (!fork()) {
                limit.rlim_cur = limit.rlim_max = n;
                setrlimit(RLIMIT_NOFILE, &limit);
                execl("/proc/self/exe", argv[0], text, (char *)0);
                printf("exec %s\n", strerrorname_np(errno));
                fflush(stdout);
                _exit(1);
            }
            int status;
            wait(&status);
            printf("%d ended %x\n", n, status);
        }
        return 0;
    }
    getrlimit(RLIMIT_NOFILE, &limit);
    int opened = 0, last = -1, fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0) { opened++; last = fd; }
    printf("limit %ld %ld opened %d last %d %s\n", (long)limit.rlim_cur, (long)limit.rlim_max, opened, last, strerrorname_np(errno));
    fd = open("/proc/self/maps", O_RDONLY);
    printf("maps %d %s\n", fd, strerrorname_np(errno));
    printf("dup2 %d %s\n", dup2(0, (int)limit.rlim_cur), strerrorname_np(errno));
    printf("%08x\n", fresh(opened));
    fflush(stdout);
    close(last);
    if (!fork()) { execlp("sh", "sh", "-c", "exit 9", (char *)0); _exit(1); }
    int status;
    wait(&status);
    printf("shell %x\n", status);
    return 0;
}
