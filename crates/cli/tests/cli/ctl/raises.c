/* Raises signals with handlers, and does something else every time in between. */
#include <signal.h>

static volatile unsigned sum;

static void handler(int signal) { sum += signal; }

static void work(unsigned turn)
{
    for (unsigned i = 0; i < 10 + turn * 7; i++)
        sum = i % 3 ? sum * 5 : sum ^ turn;
}

int main(void)
{
    signal(SIGUSR1, handler);
    signal(SIGUSR2, handler);
    for (unsigned turn = 0; turn < 12; turn++) {
        work(turn);
        raise(turn % 3 ? SIGUSR2 : SIGUSR1);
    }
    work(99);
    return 0;
}
