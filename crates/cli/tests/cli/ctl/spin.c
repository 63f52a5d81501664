/* A thread computes without a system call and without an end; the other waits for input. */
#include <pthread.h>
#include <unistd.h>

static volatile unsigned over, sum;

static void *spin(void *nothing)
{
    (void)nothing;
    while (!over)
        sum = sum * 3 + 1;
    return 0;
}

int main(void)
{
    pthread_t thread;
    char byte;
    pthread_create(&thread, 0, spin, 0);
    write(1, "+", 1);
    if (read(0, &byte, 1) < 0)
        return 1;
    over = 1;
    pthread_join(thread, 0);
    return 0;
}
