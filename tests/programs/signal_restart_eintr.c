// read, nanosleep, futex, poll and wait interrupted by a signal: restarted
// with SA_RESTART where the kernel does so, EINTR otherwise.
// build: cc -O1
// run: no-oracle its timers come again and again while a system call is stepped
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static int ends[2];
static volatile int signals, last;
static void arm(int usec) { struct itimerval it = {{0, usec}, {0, usec}}; setitimer(ITIMER_REAL, &it, 0); }
// The timer goes on until the call has met it: a signal may come before the
// call is made. The last of a bounded number ends a read that is restarted.
static void handler(int sig) { if (++signals == last) { arm(0); write(ends[1], "x", 1); } }
static void begin(int most) { signals = 0; last = most; arm(10000); }
int main(void) {
    pipe(ends);
    for (int restart = 0; restart < 2; restart++) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = restart ? SA_RESTART : 0};
        sigaction(SIGALRM, &action, 0);
        char c;
        struct pollfd p = {.fd = ends[0], .events = POLLOUT};
        struct timespec long_time = {5, 0}, left = {0, 0};
        begin(restart ? 3 : -1);
        int r = read(ends[0], &c, 1), e = errno;
        arm(0);
        printf("restart %d: read %d %s after %s\n", restart, r, r < 0 ? strerror(e) : "data", signals == 3 && restart ? "3" : signals ? "some" : "none");
        begin(-1); r = nanosleep(&long_time, &left); e = errno; arm(0);
        printf("nanosleep %d %s left %d\n", r, strerror(e), left.tv_sec == 4);
        begin(-1); r = poll(&p, 1, 5000); e = errno; arm(0);
        printf("poll %d %s\n", r, strerror(e));
        begin(-1); r = pause(); e = errno; arm(0);
        printf("pause %d %s\n", r, strerror(e));
        fd_set set;
        FD_ZERO(&set);
        begin(-1); r = select(0, &set, 0, 0, 0); e = errno; arm(0);
        printf("select %d %s\n", r, strerror(e));
    }
    return 0;
}
