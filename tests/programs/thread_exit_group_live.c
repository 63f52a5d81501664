// exit with threads computing, sleeping and blocked: prompt, right status.
// build: cc -O1 -pthread
// run: exit 9
// run: nondeterministic-counts
// run: repeat 5
// run: no-oracle which of its threads have begun when it ends depends on time
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static volatile unsigned long counter;
static int ends[2];
static void *spin(void *arg) { for (;;) counter++; }
static void *block(void *arg) { char c; read(ends[0], &c, 1); return 0; }
static void *nap(void *arg) { sleep(100); return 0; }
int main(void) {
    pthread_t t;
    pipe(ends);
    for (int i = 0; i < 2; i++) { pthread_create(&t, 0, spin, 0); pthread_create(&t, 0, block, 0); pthread_create(&t, 0, nap, 0); }
    while (counter < 1000) usleep(10);
    _exit(9);
}
