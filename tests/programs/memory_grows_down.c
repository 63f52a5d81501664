// A mapping that grows down grows over what was unmapped below it, touched by its owner or as the stack of a thread:
// nothing that the observer maps lies in the way.
// build: cc -O1 -pthread
// run: oracle own-functions
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#define PAGE 4096UL
static void *deep(void *unused) {
    volatile char room[64 * 1024];
    for (int i = sizeof room - 1; i >= 0; i -= 512) room[i] = 1;
    return 0;
}
static int grow(int by_thread) {
    char *range = mmap(0, 300 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(range, 300 * PAGE);
    char *top = range + 290 * PAGE;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN;
    if (mmap(top - 4 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) return 3;
    if (!by_thread) {
        for (char *at = top - 1; at > top - 20 * PAGE; at -= 1024) *(volatile char *)at = 1;
        return 0;
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, top - 32 * PAGE, 32 * PAGE);
    pthread_t thread;
    if (pthread_create(&thread, &attributes, deep, 0)) return 4;
    pthread_join(thread, 0);
    return 0;
}
int main(void) {
    for (int by_thread = 0; by_thread < 2; by_thread++) {
        fflush(stdout);
        pid_t child = fork();
        if (!child) _exit(grow(by_thread));
        int status;
        waitpid(child, &status, 0);
        printf("%s: %#x\n", by_thread ? "stack of a thread" : "touched", status);
    }
    return 0;
}
