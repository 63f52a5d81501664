// A tree of processes by repeated fork, each adding to shared memory.
// build: cc -O1
// run: oracle own-functions
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int *sum = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t top = getpid();
    unsigned id = 1;
    for (int level = 0; level < 6; level++) {
        if (!fork()) { id = id * 2; if (!fork()) id++; }
        else break;
    }
    __atomic_fetch_add(sum, id, __ATOMIC_RELAXED);
    __atomic_fetch_add(sum + 1, 1, __ATOMIC_RELAXED);
    while (wait(0) > 0) ;
    if (getpid() == top) printf("%d %d\n", sum[0], sum[1]);
    return 0;
}
