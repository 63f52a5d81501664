// A computing child stopped and continued many times, by its parent and by
// itself, ends with the right sum.
// build: cc -O1
// run: nondeterministic-counts
// run: no-oracle it takes more than 400,000 steps; shortened, its child stops itself before its parent has waited for it
#include <stdlib.h>
#include <sys/mman.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 30000000;
    // The child stops itself once its parent is done, however long either takes.
    volatile int *done = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    if (!pid) {
        volatile unsigned x = 1;
        for (int i = 0; i < rounds; i++) x = x * 1103515245 + 12345;
        while (!*done) continue;
        raise(SIGSTOP);
        _exit(x >> 25);
    }
    int status, stops = 0;
    for (int i = 0; i < 20; i++) {
        kill(pid, SIGSTOP);
        waitpid(pid, &status, WUNTRACED);
        if (!WIFSTOPPED(status)) break;
        stops += WSTOPSIG(status) == SIGSTOP;
        kill(pid, SIGCONT);
        waitpid(pid, &status, WCONTINUED);
        usleep(1000);
    }
    *done = 1;
    waitpid(pid, &status, WUNTRACED);
    printf("stops %d own %d\n", stops, WIFSTOPPED(status));
    kill(pid, SIGCONT);
    waitpid(pid, &status, 0);
    printf("exit %d\n", WEXITSTATUS(status));
    return 0;
}
