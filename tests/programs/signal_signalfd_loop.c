// A main loop as service managers have it: epoll over a signalfd, a timerfd
// and a pipe; children's ends and queued values come through the descriptor.
// build: cc -O1
// run: nondeterministic-counts
// run: oracle own-functions
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGRTMIN + 1);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, 0);
    int signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), poller = epoll_create1(EPOLL_CLOEXEC), ends[2];
    pipe(ends);
    struct itimerspec when = {{0, 2000000}, {0, 2000000}};
    timerfd_settime(timer, 0, &when, 0);
    int fds[] = {signals, timer, ends[0]};
    for (int i = 0; i < 3; i++) { struct epoll_event e = {.events = EPOLLIN, .data.fd = fds[i]}; epoll_ctl(poller, EPOLL_CTL_ADD, fds[i], &e); }
    int started = 0, ended = 0, statuses = 0, values = 0, bytes = 0, over = 0;
    while (!over) {
        struct epoll_event e[4];
        int n = epoll_wait(poller, e, 4, 5000);
        if (n <= 0) { printf("epoll %d\n", n); return 1; }
        for (int i = 0; i < n; i++) {
            struct signalfd_siginfo s;
            unsigned long ticks;
            char text[64];
            if (e[i].data.fd == timer && read(timer, &ticks, 8) == 8 && started < 12) {
                int k = ++started;
                if (!fork()) { write(ends[1], "xy", 2); sigqueue(getppid(), SIGRTMIN + 1, (union sigval){.sival_int = k}); _exit(k); }
            }
            if (e[i].data.fd == ends[0]) bytes += read(ends[0], text, sizeof text);
            if (e[i].data.fd == signals) while (read(signals, &s, sizeof s) == sizeof s) {
                int status;
                if (s.ssi_signo == SIGCHLD) while (waitpid(-1, &status, WNOHANG) > 0) { ended++; statuses += WEXITSTATUS(status); }
                if ((int)s.ssi_signo == SIGRTMIN + 1) values += s.ssi_int;
                if (s.ssi_signo == SIGTERM) over = 1;
            }
            if (ended == 12 && started == 12 && bytes == 24) { ended++; kill(getpid(), SIGTERM); }
        }
    }
    printf("ended %d statuses %d values %d bytes %d\n", ended - 1, statuses, values, bytes);
    return 0;
}
