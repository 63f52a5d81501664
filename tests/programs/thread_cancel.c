// pthread_cancel: deferred in a blocking call, asynchronous in a loop, with
// cleanup handlers in order.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: no-oracle a real-time signal cancels: the ptrace library cannot pass it on
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static int ends[2];
static volatile int ready;
static void clean(void *arg) { printf("clean %s\n", (char *)arg); }
static void *blocked(void *arg) {
    char c;
    pthread_cleanup_push(clean, "outer");
    pthread_cleanup_push(clean, "inner");
    ready = 1;
    read(ends[0], &c, 1);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return 0;
}
static void *looping(void *arg) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    pthread_cleanup_push(clean, "loop");
    ready = 1;
    for (volatile int i = 0;; i++) ;
    pthread_cleanup_pop(0);
}
static void *disabled(void *arg) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, 0);
    ready = 1;
    usleep(20000);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, 0);
    pthread_testcancel();
    return 0;
}
int main(void) {
    pipe(ends);
    void *(*const kinds[])(void *) = {blocked, looping, disabled};
    for (int i = 0; i < 9; i++) {
        pthread_t t;
        void *result;
        ready = 0;
        pthread_create(&t, 0, kinds[i % 3], 0);
        while (!ready) usleep(100);
        usleep(1000);
        pthread_cancel(t);
        pthread_join(t, &result);
        printf("%d cancelled %d\n", i, result == PTHREAD_CANCELED);
    }
    return 0;
}
