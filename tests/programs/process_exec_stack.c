// Without address randomisation the initial stack is at the native addresses, to the byte: the
// program is called by a path, a descriptor, /proc/self/exe, and by a script of another name.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <unistd.h>
extern char **environ;
static const char *base(const char *path) { const char *slash = strrchr(path, '/'); return slash ? slash + 1 : path; }
static void show(int argc, char **argv) {
    unsigned long *auxv = (unsigned long *)environ;
    char comm[64] = {0}, line[4096];
    int fd = open("/proc/self/comm", O_RDONLY);
    if (read(fd, comm, sizeof comm - 1) < 0) perror("comm");
    close(fd);
    while (*auxv++) {}
    while (*auxv) auxv += 2;
    printf("%s, comm %s", base((char *)getauxval(AT_EXECFN)), comm);
    printf("argv %p envp %p auxv to %p\n", (void *)argv, (void *)environ, (void *)auxv);
    for (int i = 0; i < argc; i++) printf("%p %s\n", (void *)argv[i], base(argv[i]));
    printf("env %p random %lx platform %lx name %lx\n", (void *)environ[0], getauxval(AT_RANDOM),
           getauxval(AT_PLATFORM), getauxval(AT_EXECFN));
    fd = open("/proc/self/cmdline", O_RDONLY);
    ssize_t length = read(fd, line, sizeof line);
    close(fd);
    int same = 1;
    for (ssize_t i = 0; i < length; i++) same &= argv[0][i] == line[i];
    printf("cmdline %zd %s\n", length, same ? "as in memory" : "another");
    fflush(stdout);
}
int main(int argc, char **argv) {
    static char *small[] = {"A=1", "BC=23", 0};
    char self[4096], script[4200];
    const char *step = argc > 1 ? argv[argc - 1] : "";
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length] = 0;
    if (!strcmp(step, "")) {
        personality(ADDR_NO_RANDOMIZE);
        execl(argv[0], argv[0], "by path", (char *)0);
    }
    show(argc, argv);
    if (!strcmp(step, "by path")) execle(argv[0], "", "and", "few strings", (char *)0, small);
    if (!strcmp(step, "few strings")) execl("/proc/self/exe", "another", "by link", (char *)0);
    if (!strcmp(step, "by link")) fexecve(open(self, O_RDONLY), (char *[]){"descriptor", "by descriptor", 0}, environ);
    if (!strcmp(step, "by descriptor")) {
        char path[] = "/tmp/everypath-script-XXXXXX";
        int made = mkostemp(path, O_CLOEXEC);
        int size = snprintf(script, sizeof script, "#!%s one argument\n", self);
        if (write(made, script, size) != size || fchmod(made, 0700)) return 1;
        int fd = open(path, O_RDONLY);
        close(made);
        fexecve(fd, (char *[]){"lost", "by script", 0}, environ);
    }
    length = readlink(argv[argc - 2], self, sizeof self - 1);
    self[length] = 0;
    return strcmp(step, "by script") != 0 || unlink(self);
}
