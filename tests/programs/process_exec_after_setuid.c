// A program that gives its privileges up and then execs, as servers do: the
// new program starts, with the new identity.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int status;
    fflush(stdout);
    for (int how = 0; how < 2; how++) {
        if (!fork()) {
            if (how && (setgroups(0, 0) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))) { printf("refused %s\n", strerrorname_np(errno)); fflush(stdout); _exit(0); }
            if (!how) prctl(PR_SET_DUMPABLE, 0);
            execl("/bin/sh", "sh", "-c", "id -u; id -g; exit 7", (char *)0);
            printf("exec %s\n", strerrorname_np(errno));
            fflush(stdout);
            _exit(1);
        }
        wait(&status);
        printf("%d ended %d\n", how, WEXITSTATUS(status));
        fflush(stdout);
    }
    return 0;
}
