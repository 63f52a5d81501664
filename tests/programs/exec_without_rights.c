// Exec after giving up every right (if there are any to give up), and out of an empty root directory.
// build: gcc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void in_child(const char *name, void (*prepare)(void), char *path, char *argument)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        prepare();
        execl(path, path, argument, (char *)0);
        printf("%s: %s\n", name, strerror(errno));
        _exit(1);
    }
    waitpid(pid, &status, 0);
    printf("%s: status %d\n", name, WEXITSTATUS(status));
}

static void become_nobody(void)
{
    if (setgroups(0, 0) == 0 && setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0)
        return;
}

static void hide_proc(void)
{
    if (chroot("/usr") == 0 && chdir("/") == 0)
        return;
}

int main(void)
{
    setvbuf(stdout, 0, _IOLBF, 0);
    in_child("as nobody", become_nobody, "/bin/echo", "said by nobody");
    in_child("as nobody, a shell", become_nobody, "/bin/sh", "/dev/null");
    in_child("without /proc", hide_proc, "/bin/true", 0);
    in_child("without /proc, a missing file", hide_proc, "/no/such/file", 0);
    return 0;
}
