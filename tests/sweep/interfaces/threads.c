// Threads that are begun and joined, with values of their own and a common sum.
static _Thread_local u64 own;
static u64 sum;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *thread(void *number) {
    for (int i = 0; i < 10; i++) own = mix(own, work((u64)number + (u64)i));
    pthread_mutex_lock(&mutex);
    sum += own;
    pthread_mutex_unlock(&mutex);
    return (void *)own;
}
int main(void) {
    u64 digest = 0;
    for (int round = 0; round < 3; round++) {
        pthread_t threads[4];
        for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, thread, (void *)(i * 100));
        for (int i = 0; i < 4; i++) {
            void *result;
            pthread_join(threads[i], &result);
            digest = mix(digest, (u64)result);
        }
    }
    show("digest", digest);
    show("sum", sum);
}
