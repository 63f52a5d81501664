// A static program started with no descriptor free: RLIMIT_NOFILE is 3.
// build: cc -O1 -static
// run: no-oracle what it executes runs natively there and is not counted
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct rlimit limit = {3, 3};
    if (argc == 1) {
        setrlimit(RLIMIT_NOFILE, &limit);
        execl("/proc/self/exe", argv[0], "inside", (char *)0);
        printf("exec %s\n", strerrorname_np(errno));
        return 1;
    }
    int fd = open("/dev/null", O_RDONLY);
    printf("open %d %s\n", fd, strerrorname_np(errno));
    fflush(stdout);
    int status;
    if (!fork()) _exit(7);
    wait(&status);
    printf("fork %x\n", status);
    return 0;
}
