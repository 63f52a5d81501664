// pthread_getattr_np finds the main thread's stack: it holds a local, its size
// follows the limit, and it ends above main's frame.
// build: cc -O1 -pthread
// run: oracle own-functions
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
static void show(const char *who) {
    pthread_attr_t attr;
    void *base; size_t size, guard; int local;
    printf("%s %d ", who, pthread_getattr_np(pthread_self(), &attr));
    pthread_attr_getstack(&attr, &base, &size);
    pthread_attr_getguardsize(&attr, &guard);
    printf("inside %d\n", (char *)&local >= (char *)base && (char *)&local < (char *)base + size);
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    if (*who == 'm') printf("size %d\n", limit.rlim_cur == RLIM_INFINITY || (size <= limit.rlim_cur && size + (1 << 20) > limit.rlim_cur));
    pthread_attr_destroy(&attr);
}
static void *run(void *arg) { show("thread"); return 0; }
int main(void) {
    show("main");
    pthread_t t;
    pthread_create(&t, 0, run, 0);
    pthread_join(t, 0);
    return 0;
}
