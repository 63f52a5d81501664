// Producers and consumers with mutex, condition, rwlock, barrier, once, key.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: oracle own-functions
// run: oracle-args 20
#include <stdlib.h>
#include <pthread.h>
#include <stdio.h>
#include <semaphore.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t full = PTHREAD_COND_INITIALIZER, empty = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static pthread_barrier_t barrier;
static sem_t sem;
static int queue[8], head, tail, onces, destroyed;
static long consumed;
static int rounds;
static void init(void) { onces++; }
static void destroy(void *p) { pthread_mutex_lock(&lock); destroyed++; pthread_mutex_unlock(&lock); }
static void *produce(void *arg) {
    pthread_once(&once, init);
    pthread_setspecific(key, arg);
    for (int i = 1; i <= rounds; i++) {
        pthread_mutex_lock(&lock);
        while (tail - head == 8) pthread_cond_wait(&empty, &lock);
        queue[tail++ % 8] = i;
        pthread_cond_signal(&full);
        pthread_mutex_unlock(&lock);
        sem_post(&sem);
    }
    pthread_barrier_wait(&barrier);
    return 0;
}
static void *consume(void *arg) {
    pthread_once(&once, init);
    pthread_setspecific(key, arg);
    for (int i = 1; i <= rounds; i++) {
        sem_wait(&sem);
        pthread_mutex_lock(&lock);
        while (tail == head) pthread_cond_wait(&full, &lock);
        int x = queue[head++ % 8];
        pthread_cond_signal(&empty);
        pthread_mutex_unlock(&lock);
        pthread_rwlock_wrlock(&rw);
        consumed += x;
        pthread_rwlock_unlock(&rw);
    }
    pthread_barrier_wait(&barrier);
    return 0;
}
int main(int argc, char **argv) {
    rounds = argc > 1 ? atoi(argv[1]) : 2000;
    pthread_t t[6];
    sem_init(&sem, 0, 0);
    pthread_key_create(&key, destroy);
    if (argc > 1) pthread_once(&once, init); // which thread is first depends on time
    pthread_barrier_init(&barrier, 0, 6);
    for (int i = 0; i < 6; i++) pthread_create(&t[i], 0, i & 1 ? produce : consume, &key);
    for (int i = 0; i < 6; i++) pthread_join(t[i], 0);
    printf("%ld %d %d\n", consumed, onces, destroyed);
    return 0;
}
