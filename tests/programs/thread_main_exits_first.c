// The main thread leaves with pthread_exit, the process goes on and its last
// thread decides; /proc/self is a leader without memory then.
// build: cc -O1 -pthread
// run: exit 5
// run: oracle own-functions
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_t first;
static void *run(void *arg) { pthread_join(first, 0); printf("alone\n"); fflush(stdout); exit(5); }
int main(void) { pthread_t t; first = pthread_self(); pthread_create(&t, 0, run, 0); pthread_exit(0); }
