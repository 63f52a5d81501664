// A program that execs itself forty times keeps its process id, arguments and
// environment, starts anew each time, and leaks no descriptor.
// build: cc -O1
// run: oracle own-functions
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int data = 5;
int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 0;
    char next[20], pid[20];
    if (!n) { sprintf(pid, "%d", getpid()); setenv("FIRST_PID", pid, 1); }
    int fd = open("/dev/null", O_RDONLY);
    close(fd);
    int same = atoi(getenv("FIRST_PID")) == getpid();
    if (data != 5 || fd != 3 || !same || n == 40) { printf("%d: data %d fd %d same %d\n", n, data, fd, same); return 0; }
    data = 6;
    sprintf(next, "%d", n + 1);
    execl("/proc/self/exe", argv[0], next, (char *)0);
    return 1;
}
