// Parent and children make different code at the same addresses after fork,
// at the same time: each runs its own. Shared code pages are changed by one
// and seen by the other.
// build: cc -O1
// run: oracle own-functions
// run: oracle-args 2
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void put(unsigned char *at, int value) { unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3}; memcpy(code + 1, &value, 4); memcpy(at, code, 6); }
static int run(unsigned char *page) { int sum = 0; for (int i = 0; i < 64; i++) sum += ((int (*)(void))(page + i * 64))(); return sum; }
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *both = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 64; i++) put(page + i * 64, 1);
    put(both, 5);
    printf("first %d %d\n", run(page), ((int (*)(void))both)());
    fflush(stdout);
    int good = 0;
    for (int round = 0; round < rounds; round++) {
        pid_t pid = fork();
        if (!pid) {
            int ok = 1;
            for (int k = 0; k < 10; k++) { for (int i = 0; i < 64; i++) put(page + i * 64, k + 2); ok &= run(page) == 64 * (k + 2); }
            put(both, round + 100);
            _exit(ok);
        }
        int ok = 1;
        for (int k = 0; k < 10; k++) { for (int i = 0; i < 64; i++) put(page + i * 64, k + 50); ok &= run(page) == 64 * (k + 50); }
        int status;
        waitpid(pid, &status, 0);
        good += ok && WEXITSTATUS(status) == 1;
    }
    printf("good %d\n", good);
    return 0;
}
