// Sleeps, timerfd, POSIX timers with a thread's handler, and clocks that only grow.
#include <sys/timerfd.h>
static volatile sig_atomic_t rings;
static volatile u64 ringing;
static void on_timer(int sig, siginfo_t *info, void *context) {
    ringing = work(9);
    rings++;
}
static u64 now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (u64)time.tv_sec * 1000000000 + (u64)time.tv_nsec;
}
int main(void) {
    u64 digest = 0, before = now(), ticks, backwards = 0;
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    MUST(fd);
    struct itimerspec soon = {{0, 0}, {0, 2000000}}, again = {{0, 3000000}, {0, 1000000}}, off = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART};
    MUST(sigaction(SIGRTMIN, &action, 0));
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    timer_t timer;
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    MUST(timer_settime(timer, 0, &again, 0));
    for (int i = 0; i < 4; i++) {
        MUST(timerfd_settime(fd, 0, &soon, 0));
        digest = mix(digest, work((u64)i));
        MUST(read(fd, &ticks, 8));
        digest = mix(digest, ticks);
        struct timespec pause = {0, 500000};
        while (nanosleep(&pause, &pause) == -1) ;
        u64 later = now();
        backwards += later < before;
        before = later;
    }
    while (rings < 3) backwards += work(1) != work(1);
    MUST(timer_settime(timer, 0, &off, 0));
    show("backwards", backwards);
    show("ringing", ringing);
    show("digest", digest);
}
