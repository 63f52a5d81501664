// execveat: relative to a directory that is closed on exec, through
// /proc/self/fd of a descriptor that is, without following links, a script by
// descriptor, unknown flags, an empty path.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static void try(const char *what, int dir, const char *path, int flags) {
    printf("%s: ", what);
    fflush(stdout);
    if (!fork()) { syscall(SYS_execveat, dir, path, (char *[]){"name", "inside", 0}, environ, flags); printf("%s\n", strerrorname_np(errno)); fflush(stdout); _exit(1); }
    int status;
    wait(&status);
    printf("  status %x\n", status);
}
int main(int argc, char **argv) {
    if (argc > 1) { int n = argc; printf("argc %d exec'd\n", n); return 3; }
    char where[] = "execveat.XXXXXX", own[4096], text[5000];
    if (!mkdtemp(where)) return 1;
    realpath(argv[0], own);
    chdir(where);
    link(own, "program");
    symlink("program", "link");
    int fd = open("script", O_WRONLY | O_CREAT, 0755);
    dprintf(fd, "#!%s arg\n", own);
    fchmod(fd, 0755);
    close(fd);
    int dir = open(".", O_RDONLY | O_DIRECTORY), closing = open(".", O_PATH | O_CLOEXEC);
    int program = open("program", O_RDONLY), program_closing = open("program", O_PATH | O_CLOEXEC), script = open("script", O_RDONLY), script_closing = open("script", O_RDONLY | O_CLOEXEC);
    try("directory", dir, "program", 0);
    try("directory, closing", closing, "program", 0);
    try("script in it", dir, "script", 0);
    try("script in it, closing", closing, "script", 0);
    try("link", dir, "link", 0);
    try("link not followed", dir, "link", AT_SYMLINK_NOFOLLOW);
    try("program not followed", dir, "program", AT_SYMLINK_NOFOLLOW);
    try("descriptor", program, "", AT_EMPTY_PATH);
    try("descriptor, closing", program_closing, "", AT_EMPTY_PATH);
    try("script descriptor", script, "", AT_EMPTY_PATH);
    try("script descriptor, closing", script_closing, "", AT_EMPTY_PATH);
    try("empty path", dir, "", 0);
    try("directory itself", dir, "", AT_EMPTY_PATH);
    try("bad flag", dir, "program", 0x4);
    try("bad descriptor", 999, "program", 0);
    try("bad descriptor, absolute", 999, own, 0);
    try("file as directory", program, "program", 0);
    sprintf(text, "/proc/self/fd/%d", program);
    try("by proc", AT_FDCWD, text, 0);
    sprintf(text, "/proc/self/fd/%d", program_closing);
    try("by proc, closing", AT_FDCWD, text, 0);
    sprintf(text, "/proc/self/fd/%d/program", closing);
    try("below proc, closing", AT_FDCWD, text, 0);
    chdir("..");
    sprintf(text, "rm -r %s", where);
    return system(text);
}
