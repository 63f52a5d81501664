// A dynamic musl program: another interpreter, another libc, threads.
// build: musl-gcc -O2 -pthread
// run: args one two
// run: oracle own-functions
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *run(void *arg) { return (char *)arg + 1; }
int main(int argc, char **argv) {
    void *r = 0;
    for (int i = 0; i < 10; i++) { pthread_t t; pthread_create(&t, 0, run, r); pthread_join(t, &r); }
    printf("%d %s %ld\n", argc, argv[2], (long)r);
    return 0;
}
