// The dynamic loader called as a program runs the program named after it.
// build: cc -O1
// run: oracle own-functions
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (argc > 1) { printf("child %s\n", argv[1]); return 7; }
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        execl("/lib64/ld-linux-x86-64.so.2", "ld.so", argv[0], "hello", (char *)0);
        _exit(99);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("status %d\n", WEXITSTATUS(status));
    return 0;
}
