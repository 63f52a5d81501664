// A store to memory that was just unmapped faults, in a forked child, too: nothing of the observer's was put there.
// build: cc -O1
// run: oracle own-functions
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    for (int pages = 1; pages <= 1024; pages *= 4) {
        char *at = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *at = 1;
        munmap(at, pages * 4096);
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            *(volatile char *)at = 50;
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        printf("%d pages: signal %d\n", pages, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    return 0;
}
