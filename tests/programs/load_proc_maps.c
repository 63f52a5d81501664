// /proc/self/maps shows the program's own text as r-x, its stack and heap by
// name, and no page both writable and executable.
// build: cc -O1 -pie -fPIE
// run: nondeterministic-counts
// run: oracle own-functions
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    char line[8192], self[PATH_MAX];
    realpath(argv[0], self);
    int local, text = 0, stack = 0, heap = 0, wx = 0, data = 0;
    void *block = malloc(100);
    static int variable = 3;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        unsigned long lo, hi;
        char prot[5], name[4096] = "";
        sscanf(line, "%lx-%lx %4s %*s %*s %*s %4095[^\n]", &lo, &hi, prot, name);
#define IN(p) ((unsigned long)(p) >= lo && (unsigned long)(p) < hi)
        if (IN(main)) text = !strcmp(prot, "r-xp") && !strcmp(name, self);
        if (IN(&variable)) data = !strcmp(prot, "rw-p") && !strcmp(name, self);
        if (IN(&local)) stack = !strcmp(prot, "rw-p") && !strcmp(name, "[stack]");
        if (IN(block)) heap = !strcmp(prot, "rw-p") && !strcmp(name, "[heap]");
        wx |= prot[1] == 'w' && prot[2] == 'x';
    }
    printf("text %d data %d stack %d heap %d wx %d\n", text, data, stack, heap, wx);
    return 0;
}
