// A daemon: double fork, setsid, reparented, works on after its parent ended;
// the pipe tells the first process.
// build: cc -O1
// run: oracle own-functions
// run: oracle-args 1000
#include <stdlib.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 100000;
    int ends[2], status;
    pipe(ends);
    pid_t pid = fork();
    if (!pid) {
        setsid();
        if (fork()) _exit(0);
        usleep(20000);
        char ok = 'a' + (getsid(0) != getpid());
        volatile unsigned x = 1;
        for (int i = 0; i < rounds; i++) x = x * 3 + i;
        write(ends[1], &ok, 1);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    close(ends[1]);
    char c, end;
    printf("%zd ", read(ends[0], &c, 1));
    printf("%c %zd\n", c, read(ends[0], &end, 1));
    return 0;
}
