// Threads are created, signalled with tgkill while young or dying, and joined;
// every directed signal to a waiting thread arrives.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: timeout 40
// run: oracle own-functions
// run: oracle-args 0
#include <stdlib.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
static atomic_int handled, wanted;
static void handler(int sig) { handled++; }
static void *young(void *arg) { volatile unsigned x = 1; for (int i = 0; i < 2000; i++) x = x * 3 + i; return 0; }
static atomic_int stop;
static void *waiting(void *arg) { volatile unsigned x = 1; while (!stop) x = x * 3 + 1; return 0; }
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 60;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, 0);
    for (int round = 0; round < rounds; round++) {
        pthread_t t[4];
        for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, young, 0);
        for (int i = 0; i < 4; i++) pthread_kill(t[i], SIGUSR1);
        for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    }
    pthread_t t[2];
    handled = 0;
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, waiting, 0);
    for (int n = 1; n <= 200; n++) { pthread_kill(t[n & 1], SIGUSR1); while (handled < n) usleep(20); }
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    printf("%d\n", handled);
    return 0;
}
