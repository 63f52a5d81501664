// CLONE_VFORK without shared memory: the parent waits, but sees none of the
// child's writes.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int mine = 1;
int main(void) {
    volatile int *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int waited = 0, status = 0, exits = 0;
    for (int i = 0; i < 20; i++) {
        *shared = 0;
        long pid = syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0L, 0L, 0L, 0L);
        if (!pid) { mine = 99; usleep(500); *shared = 1; _exit(3); }
        waited += *shared;
        waitpid(pid, &status, 0);
        exits += WEXITSTATUS(status) == 3;
    }
    printf("waited %d exits %d mine %d\n", waited, exits, mine);
    return 0;
}
