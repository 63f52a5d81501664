// A thread or process that dies with a robust mutex leaves it to the next one,
// who is told.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_mutex_t *m;
static void *die(void *arg) { pthread_mutex_lock(m); return 0; }
int main(void) {
    m = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(m, &a);
    pthread_t t;
    pthread_create(&t, 0, die, 0);
    pthread_join(t, 0);
    printf("thread: %s\n", strerrorname_np(pthread_mutex_lock(m)));
    pthread_mutex_consistent(m);
    pthread_mutex_unlock(m);
    for (int how = 0; how < 2; how++) {
        if (!fork()) { pthread_mutex_lock(m); if (how) kill(getpid(), SIGKILL); _exit(0); }
        wait(0);
        printf("process: %s\n", strerrorname_np(pthread_mutex_lock(m)));
        pthread_mutex_consistent(m);
        pthread_mutex_unlock(m);
    }
    printf("normal: %d\n", pthread_mutex_lock(m));
    return 0;
}
