// vfork shares memory with the parent, which waits until exec or _exit.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int shared;
int main(void) {
    for (int i = 0; i < 5; i++) {
        volatile int seen = 0, error = 0;
        pid_t pid = vfork();
        if (pid == 0) {
            shared += 10; seen = 1;
            if (i & 1) { execl("/no/such/program", "x", (char *)0); error = errno; }
            else execl("/bin/sh", "sh", "-c", "exit 4", (char *)0);
            _exit(5);
        }
        int status;
        waitpid(pid, &status, 0);
        printf("shared %d seen %d error %d status %d\n", shared, seen, error, WEXITSTATUS(status));
    }
    return 0;
}
