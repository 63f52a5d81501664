// Scripts whose interpreters are scripts: as deep as the kernel allows, one
// deeper, with arguments, a long first line, blanks, and no newline.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
static void put(const char *name, const char *text) { int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0755); write(fd, text, strlen(text)); fchmod(fd, 0755); close(fd); }
static void try(const char *what, char *const argv[]) {
    printf("%s:\n", what);
    fflush(stdout);
    if (!fork()) { execv(argv[0], argv); printf("  %s\n", strerrorname_np(errno)); fflush(stdout); _exit(1); }
    int status;
    wait(&status);
    printf("  status %x\n", status);
}
int main(int argc, char **argv) {
    if (argc > 1) {
        for (int i = 1; i < argc; i++) { char *slash = strrchr(argv[i], '/'); printf("  [%s]", strlen(argv[i]) > 60 ? "long" : slash ? slash + 1 : argv[i]); }
        puts("");
        return 3;
    }
    char where[] = "scripts.XXXXXX", own[4096], text[5000], name[20], next[4200];
    if (!mkdtemp(where)) return 1;
    realpath(argv[0], own);
    chdir(where);
    for (int i = 0; i < 7; i++) {
        if (i) sprintf(next, "%s/s%d", getcwd(text, sizeof text), i - 1); else strcpy(next, own);
        sprintf(text, "#!%s arg%d\n", next, i);
        sprintf(name, "s%d", i);
        put(name, text);
    }
    for (int i = 0; i < 7; i++) { sprintf(name, "./s%d", i); sprintf(text, "depth %d", i); try(text, (char *[]){name, "x", 0}); }
    sprintf(text, "#!   %s   a b  c\t \n", own);
    put("blanks", text);
    try("blanks", (char *[]){"./blanks", "x", 0});
    sprintf(text, "#!%s", own);
    put("open", text);
    try("no newline", (char *[]){"./open", 0});
    sprintf(text, "#!%s %0300d\n", own, 7);
    put("long", text);
    try("long argument", (char *[]){"./long", 0});
    sprintf(text, "#!/%0300d\n", 7);
    put("longer", text);
    try("long name", (char *[]){"./longer", 0});
    put("empty", "#!\n");
    try("empty", (char *[]){"./empty", 0});
    put("blank", "#!   \n");
    try("blank", (char *[]){"./blank", 0});
    sprintf(text, "#!%s", own);
    put("zero", "");
    try("zero", (char *[]){"./zero", 0});
    put("missing", "#!/no/such/interpreter\n");
    try("missing", (char *[]){"./missing", 0});
    put("directory", "#!/tmp\n");
    try("directory", (char *[]){"./directory", 0});
    put("closed", text);
    chmod("closed", 0644);
    try("not executable", (char *[]){"./closed", 0});
    try("through a file", (char *[]){"./closed/x", 0});
    chdir("..");
    sprintf(text, "rm -r %s", where);
    return system(text);
}
