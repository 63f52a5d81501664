// Two threads and six small functions with known contexts; written anew after
// listing 4.1 of paper 000. The program prints nothing.
// build: cc -g -O0 -pthread
// run: nondeterministic-counts
#include <pthread.h>

void a(int other);
void b(void);
void c(void);
void d(void);
void e(void);
void f(void);

void a(int other) {
    b();
    if (other)
        f();
    else
        c();
}

void b(void) {}
void c(void) {}
void f(void) {}

void d(void) {
    c();
    c();
}

void e(void) {
    d();
    c();
    a(0);
}

static void *second_thread(void *argument) {
    a(1);
    return argument;
}

int main(void) {
    a(0);
    e();
    e();
    pthread_t thread;
    if (pthread_create(&thread, 0, second_thread, 0))
        return 1;
    return pthread_join(thread, 0);
}
