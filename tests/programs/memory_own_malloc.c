// A program with a malloc of its own counts every call: nobody else calls it,
// and its lock is never needed twice.
// build: cc -O1 -pthread
// run: oracle own-functions
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static char room[8 << 20];
static size_t used;
static int mallocs, frees, inside;
void *malloc(size_t size) {
    if (inside++) { write(1, "malloc in malloc\n", 17); _exit(1); }
    mallocs++;
    size = (size + 31) & -16;
    char *p = room + used;
    used += size;
    *(size_t *)p = size;
    inside--;
    return p + 16;
}
void free(void *p) { frees += p != 0; }
void *calloc(size_t a, size_t b) { return malloc(a * b); }
void *realloc(void *p, size_t size) { void *q = malloc(size); if (p) memcpy(q, p, size); return q; }
static volatile int got;
static void handler(int sig) { got++; }
static unsigned work(unsigned x) { for (int i = 0; i < 1000; i++) x = x * 1103515245 + 12345; return x; }
int main(void) {
    setvbuf(stdout, room + sizeof room - 4096, _IOFBF, 4096);
    int before = mallocs;
    signal(SIGUSR1, handler);
    for (int i = 0; i < 100; i++) { raise(SIGUSR1); work(i); }
    printf("own calls %d\n", mallocs - before);
    for (int i = 0; i < 50; i++) free(malloc(100));
    printf("then %d %d\n", mallocs - before, frees >= 50);
    return 0;
}
