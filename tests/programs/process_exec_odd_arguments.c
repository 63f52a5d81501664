// exec with NULL and empty argv and envp, a long argument, and every error
// the kernel gives before the point of no return.
// build: cc -O1
// run: args parent
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void child(const char *path, void *argv, void *envp) {
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) { syscall(SYS_execve, path, argv, envp); printf("%s\n", strerror(errno)); fflush(stdout); _exit(1); }
    int status;
    waitpid(pid, &status, 0);
    printf("status %d\n", status);
}
int main(int argc, char **argv, char **envp) {
    if (argc != 2 || strcmp(argv[1], "parent")) {
        int n = 0;
        while (envp[n]) n++;
        printf("child argc %d argv0 '%s' env %d last %zu\n", argc, argv[0] ? argv[0] : "(null)", n, argc > 1 ? strlen(argv[argc - 1]) : 0);
        return 0;
    }
    char *none[] = {0}, *env[] = {"A=1", "B=2", 0}, *empty[] = {"", 0}, *longer[] = {"name", malloc(100001), 0};
    memset(longer[1], 'x', 100000);
    longer[1][100000] = 0;
    child(argv[0], 0, 0);
    child(argv[0], none, env);
    child(argv[0], empty, none);
    child(argv[0], longer, env);
    child("./missing", empty, env);
    child("/etc/passwd", empty, env);
    child("/", empty, env);
    child("/etc/passwd/x", empty, env);
    child("", empty, env);
    child((char *)8, empty, env);
    child(argv[0], (void *)8, env);
    child(argv[0], empty, (void *)8);
    char *huge[] = {"name", malloc(1 << 18), 0};
    memset(huge[1], 'y', 1 << 18);
    huge[1][(1 << 18) - 1] = 0;
    child(argv[0], huge, env);
    return 0;
}
