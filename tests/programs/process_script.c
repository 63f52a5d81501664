// #! scripts: with an argument, nested, with a relative interpreter, with a
// missing one, and without #! (ENOEXEC).
// build: cc -O1
// run: oracle own-functions
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
static void put(const char *name, const char *text) { FILE *f = fopen(name, "w"); fputs(text, f); fclose(f); chmod(name, 0755); }
static void call(const char *name) {
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) { execl(name, "zero", "one two", "three", (char *)0); printf("%s: %s\n", name, strerror(errno)); fflush(stdout); _exit(1); }
    int status;
    waitpid(pid, &status, 0);
    printf("status %d\n", WEXITSTATUS(status));
}
int main(void) {
    char dir[] = "/var/tmp/evp-script-XXXXXX", text[200];
    if (!mkdtemp(dir) || chdir(dir)) return 1;
    put("plain", "#!/bin/sh\necho plain \"$0\" \"$1\" $#\nexit 5\n");
    put("option", "#! /bin/sh -eu  \necho option $- \"$0\" $#\nfalse\necho no\n");
    put("nested", "#!./plain extra words\n");
    put("missing", "#!/no/such/interpreter\n");
    put("bare", "echo bare\n");
    put("loop", "#!./loop\n");
    const char *names[] = {"./plain", "./option", "./nested", "./missing", "./bare", "./loop", 0};
    for (int i = 0; names[i]; i++) call(names[i]);
    for (int i = 0; names[i]; i++) unlink(names[i]);
    chdir("/");
    return rmdir(dir);
}
