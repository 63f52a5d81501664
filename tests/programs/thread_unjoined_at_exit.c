// Threads that nobody joined are still running, sleeping, or holding a lock
// that exit needs not, when main returns.
// build: cc -O1 -pthread
// run: exit 3
// run: nondeterministic-counts
// run: repeat 3
// run: oracle own-functions
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int started;
static void *spin(void *arg) { __sync_fetch_and_add(&started, 1); for (volatile unsigned x = 0;; x++); }
static void *sleeper(void *arg) { __sync_fetch_and_add(&started, 1); pause(); return 0; }
static void *holder(void *arg) { pthread_mutex_lock(&lock); __sync_fetch_and_add(&started, 1); pause(); return 0; }
static void *waiter(void *arg) { __sync_fetch_and_add(&started, 1); pthread_mutex_lock(&lock); return 0; }
static void late(void) { puts("late"); }
int main(void) {
    void *(*const work[])(void *) = {spin, sleeper, holder, waiter};
    pthread_t t;
    atexit(late);
    for (int i = 0; i < 4; i++) { pthread_create(&t, 0, work[i], 0); if (i == 2) while (started < 3) usleep(50); }
    while (started < 4) usleep(50);
    puts("main ends");
    return 3;
}
