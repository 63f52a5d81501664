// A process that limits its address space or its data to less than it has
// mapped, as `ulimit -v` in a shell does: its children, theirs and theirs
// still start, run, and start programs.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static int generations(int left) {
    int status;
    if (!left) { execl("/bin/sh", "sh", "-c", "exit 5", (char *)0); return 100; }
    pid_t child = fork();
    if (child < 0) return 101;
    if (!child) _exit(generations(left - 1) + 1);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 102;
}
int main(void) {
    static const struct { const char *name; int resource; long bytes; } limits[] = {
        {"data", RLIMIT_DATA, 2000L << 20}, {"address space", RLIMIT_AS, 8000L << 20},
    };
    for (int i = 0; i < 2; i++) {
        struct rlimit limit = {limits[i].bytes, limits[i].bytes};
        int set = setrlimit(limits[i].resource, &limit);
        printf("%s %d:", limits[i].name, set);
        for (int depth = 1; depth < 6; depth++) printf(" %d", generations(depth));
        puts("");
    }
    return 0;
}
