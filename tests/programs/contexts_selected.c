// What the options of `contexts` are tested with: simple and mutual recursion,
// tail calls, a callback from the C library, threads one after the other, a
// signal handler, a function that begins and one that ends the counting.
// build: cc -O1 -fno-inline -fno-optimize-sibling-calls -pthread
// run: oracle own-functions
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#define TAIL __attribute__((optimize("optimize-sibling-calls")))
static volatile unsigned sum;
static void leaf(unsigned n) { sum = sum * 7 + n; }
static void direct(unsigned n) { leaf(n); if (n) direct(n - 1); leaf(n); }
static void odd(unsigned n);
static void even(unsigned n) { if (n) odd(n - 1); else direct(2); }
static void odd(unsigned n) { if (n) even(n - 1); leaf(n); }
TAIL static void last(unsigned n) { leaf(n + 1); asm volatile(""); }
TAIL static void hop(unsigned n) { leaf(n); last(n * 2); }
TAIL static void relay(unsigned n) { if (n & 1) hop(n); else last(n); }
static int compare(const void *a, const void *b) { leaf(1); return *(const int *)a - *(const int *)b; }
static void sort(void) { int v[] = {5, 3, 9, 1}; qsort(v, 4, sizeof v[0], compare); leaf(v[0]); }
static void on_usr1(int sig) { relay(sig); }
static void everything(unsigned n) {
    direct(3);
    even(n);
    for (unsigned i = 0; i < 3; i++) relay(i);
    sort();
    raise(SIGUSR1);
}
static void begin(unsigned n) { leaf(n); everything(n); }
static void finish(void) { leaf(9); }
static void *work(void *arg) { everything((unsigned)(long)arg); return 0; }
static void thread(long n) { pthread_t t; pthread_create(&t, 0, work, (void *)n); pthread_join(t, 0); }
int main(void) {
    signal(SIGUSR1, on_usr1);
    everything(2);
    thread(1);
    begin(5);
    everything(3);
    thread(4);
    begin(1);
    finish();
    everything(4);
    thread(2);
    begin(2);
    printf("%u\n", sum);
    return 0;
}
