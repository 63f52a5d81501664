// execveat of files in a mount that is attached nowhere: their names begin at that mount.
// build: cc -O1
// run: no-oracle which programs it executes is what is tested
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define OPEN_TREE_CLONE 1
#define AT_RECURSIVE 0x8000
static void run(const char *what, int directory, const char *path, int flags) {
    fflush(stdout);
    int status, child = fork();
    char *argv[] = {"sh", "-c", "echo a program; exit 7", 0}, *envp[] = {0};
    if (child == 0) {
        syscall(SYS_execveat, directory, path, argv, envp, flags);
        printf("%s: %s\n", what, strerror(errno));
        fflush(stdout);
        _exit(1);
    }
    waitpid(child, &status, 0);
    printf("%s: %x\n", what, status);
}
int main(void) {
    int tree = syscall(SYS_open_tree, AT_FDCWD, "/usr", OPEN_TREE_CLONE | O_CLOEXEC | AT_RECURSIVE);
    if (tree < 0) {
        // Needs the right to mount.
        printf("no tree: %s\n", strerror(errno));
        return 0;
    }
    int file = openat(tree, "bin/sh", O_PATH), closed = openat(tree, "bin/sh", O_PATH | O_CLOEXEC);
    run("by descriptor", file, "", AT_EMPTY_PATH);
    run("by one that exec closes", closed, "", AT_EMPTY_PATH);
    run("in the tree", tree, "bin/sh", 0);
    int text = openat(tree, "include/stdio.h", O_PATH);
    run("no program", text, "", AT_EMPTY_PATH);
    run("a directory", tree, "", AT_EMPTY_PATH);
    return 0;
}
