// Threads fail system calls of different kinds all the time: errno is each
// thread's own and never another's, whatever was done on the way.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
static void *work(void *arg) {
    long mine = (long)arg, bad = 0;
    errno = 1000 + mine;
    for (int i = 0; i < 2000; i++) {
        getppid();
        void *p = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(p, 4096, PROT_READ | PROT_EXEC);
        munmap(p, 4096);
        bad += errno != 1000 + mine;
        switch (mine) {
            case 0: close(-1); bad += errno != EBADF; break;
            case 1: open("/no/such/file", O_RDONLY); bad += errno != ENOENT; break;
            case 2: mprotect((void *)1, 1, 0); bad += errno != EINVAL; break;
            default: mmap(0, 0, 0, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); bad += errno != EINVAL;
        }
        errno = 1000 + mine;
    }
    return (void *)bad;
}
int main(void) {
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++) { void *r; pthread_join(t[i], &r); printf("%ld\n", (long)r); }
    return 0;
}
