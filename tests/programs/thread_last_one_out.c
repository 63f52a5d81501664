// All threads end with pthread_exit: the exit status is 0, atexit runs once.
// build: cc -O1 -pthread
// run: no-oracle which thread is the last one, and so runs the exit functions, is chance
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void bye(void) { printf("bye\n"); }
static pthread_barrier_t barrier;
static void *run(void *arg) { pthread_barrier_wait(&barrier); return 0; }
int main(void) {
    atexit(bye);
    pthread_barrier_init(&barrier, 0, 5);
    for (int i = 0; i < 4; i++) { pthread_t t; pthread_create(&t, 0, run, 0); pthread_detach(t); }
    pthread_barrier_wait(&barrier);
    pthread_exit(0);
}
