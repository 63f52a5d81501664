// fork while other threads run and hold locks: the child lives, has one
// thread, computes and exits; atfork handlers run.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: repeat 2
// run: oracle own-functions
// run: oracle-args 3
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int stop, prepared;
static void prepare(void) { prepared++; }
static void *churn(void *arg) { while (!stop) { void *p = malloc(100 + (long)arg); free(p); } return 0; }
static unsigned work(unsigned x) { for (int i = 0; i < 1000; i++) x = x * 1103515245 + 12345; return x; }
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    pthread_t t[3];
    pthread_atfork(prepare, 0, 0);
    for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, churn, (void *)i);
    int good = 0;
    for (int i = 0; i < rounds; i++) {
        pid_t pid = fork();
        if (!pid) { free(malloc(1000)); _exit(work(i) >> 24 & 0x7f); }
        int status;
        waitpid(pid, &status, 0);
        good += WIFEXITED(status) && WEXITSTATUS(status) == (work(i) >> 24 & 0x7f);
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    printf("%d %d\n", good, prepared);
    return 0;
}
