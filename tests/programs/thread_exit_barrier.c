// Sixty-four threads end at the same moment, behind a barrier, in rounds, with
// destructors of thread-specific data and thread locals.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
static pthread_barrier_t barrier;
static pthread_key_t key;
static atomic_int destroyed;
static __thread int own = 5;
static void destroy(void *value) { destroyed += *(int *)value; }
static void *work(void *arg) { own += (int)(long)arg; pthread_setspecific(key, &own); pthread_barrier_wait(&barrier); return (void *)(long)own; }
int main(void) {
    pthread_key_create(&key, destroy);
    long sum = 0;
    for (int round = 0; round < 5; round++) {
        pthread_t t[64];
        pthread_barrier_init(&barrier, 0, 64);
        for (long i = 0; i < 64; i++) pthread_create(&t[i], 0, work, (void *)i);
        for (int i = 0; i < 64; i++) { void *r; pthread_join(t[i], &r); sum += (long)r; }
    }
    printf("%ld %d\n", sum, destroyed);
    return 0;
}
