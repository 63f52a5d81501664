// One thread loads and unloads a library while three others map and unmap
// pages as fast as they can: nobody takes another's addresses.
// build: cc -O1 -pthread
// part: plugin.so cc -O1 -shared -fPIC -DPLUGIN
// run: nondeterministic-counts
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#ifdef PLUGIN
static int table[3000] = {1, 2, 3};
int plugin(int x) { table[x & 2047] += x; return table[x & 2047] + 5; }
#else
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static atomic_int stop, bad;
static void *storm(void *arg) {
    int mine = (int)(long)arg;
    while (!stop) {
        size_t size = 4096 * (1 + mine * 7);
        char *p = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) { bad++; continue; }
        for (size_t i = 0; i < size; i += 4096) p[i] = mine;
        for (size_t i = 0; i < size; i += 4096) if (p[i] != mine) bad++;
        if (munmap(p, size)) bad++;
    }
    return 0;
}
int main(void) {
    pthread_t t[3];
    for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, storm, (void *)(i + 1));
    int sum = 0, loads = 0;
    for (int i = 0; i < 60; i++) {
        void *lib = dlopen("./plugin.so", RTLD_NOW);
        if (!lib) { printf("%s\n", dlerror()); break; }
        int (*call)(int) = (int (*)(int))dlsym(lib, "plugin");
        loads++;
        sum += call(i) + call(i);
        dlclose(lib);
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    printf("loads %d sum %d bad %d\n", loads, sum, bad);
    return 0;
}
#endif
