// A timer interrupts the class's instructions; the handler executes them, too.
#include <sys/time.h>
static volatile sig_atomic_t alarms;
static u64 expected, wrong;
static void on_alarm(int sig) {
    wrong += work(2) != expected;
    alarms++;
}
int main(void) {
    expected = work(2);
    u64 other = work(1);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGALRM, &action, 0));
    struct itimerval timer = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};
    MUST(setitimer(ITIMER_REAL, &timer, 0));
    while (alarms < 12) wrong += work(1) != other;
    MUST(setitimer(ITIMER_REAL, &off, 0));
    show("wrong", wrong);
    show("digest", mix(expected, other));
}
