// The heap's end is each process's own: a child moves it without moving its
// parent's, and exec gives a fresh heap.
// build: cc -O1
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char *before = sbrk(0);
    if (argc > 1) { printf("fresh: %d\n", sbrk(12345) == before && sbrk(0) == before + 12345); return 0; }
    sbrk(100001);
    memset(before, 1, 100001);
    int status;
    for (int i = 1; i <= 3; i++) {
        fflush(stdout);
        if (!fork()) {
            int ok = sbrk(0) == before + 100001 && sbrk(i * 50000) == before + 100001;
            memset(before, 2, 100001 + i * 50000);
            ok &= brk(before + 7) == 0 && sbrk(0) == before + 7;
            _exit(ok);
        }
        wait(&status);
        printf("child %d, parent %d %d\n", WEXITSTATUS(status), sbrk(0) == before + 100001, before[100000]);
    }
    printf("same page %d\n", (char *)syscall(SYS_brk, before + 100002) == before + 100002);
    fflush(stdout);
    execl("/proc/self/exe", argv[0], "x", (char *)0);
    return 1;
}
