// The signals of faults, sent while they are blocked: they are pending, a signalfd, poll and
// sigwait show them, a thread that waits for them gets them, exec keeps them and fork does not.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: no-oracle synchronous signals that are sent do not all reach a stepped program
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int all[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
static sigset_t set;
static volatile int alarms;

static void on_alarm(int signal) { (void)signal, alarms++; }

static void pending(const char *when) {
    sigset_t now;
    sigpending(&now);
    printf("%s:", when);
    for (int i = 0; i < 6; i++) {
        if (sigismember(&now, all[i])) printf(" %d", all[i]);
    }
    printf("\n");
}

// A child sends the signal when this process has begun to wait.
static pid_t later(int signal) {
    pid_t child = fork();
    if (child == 0) {
        usleep(30000);
        sigqueue(getppid(), signal, (union sigval){.sival_int = 7});
        _exit(0);
    }
    return child;
}

static void reap(pid_t child) {
    while (waitpid(child, 0, 0) < 0 && errno == EINTR) {
    }
}

static void *waiter(void *result) {
    siginfo_t info;
    *(int *)result = sigwaitinfo(&set, &info);
    return 0;
}

static void *reader(void *fd) {
    struct signalfd_siginfo shown;
    return (void *)(read(*(int *)fd, &shown, sizeof shown) == sizeof shown ? (long)shown.ssi_signo : -1L);
}

static void by_descriptor(int fd, int signal) {
    struct signalfd_siginfo shown = {0};
    struct pollfd poll_of = {.fd = fd, .events = POLLIN};
    printf("%d: empty %d", signal, poll(&poll_of, 1, 0));
    kill(getpid(), signal);
    printf(" poll %d", poll(&poll_of, 1, 1000));
    int got = read(fd, &shown, sizeof shown);
    printf(" read %d signal %u code %d\n", got == sizeof shown, shown.ssi_signo, shown.ssi_code);
    pid_t child = later(signal);
    printf("%d: poll %d", signal, poll(&poll_of, 1, 5000));
    got = read(fd, &shown, sizeof shown);
    printf(" read %d value %d\n", got == sizeof shown, shown.ssi_int);
    reap(child);
    child = later(signal);
    got = read(fd, &shown, sizeof shown);
    printf("%d: read %d signal %u sender %d\n", signal, got == sizeof shown, shown.ssi_signo, (pid_t)shown.ssi_pid == child);
    reap(child);
    int queue = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN}, found;
    epoll_ctl(queue, EPOLL_CTL_ADD, fd, &event);
    pthread_kill(pthread_self(), signal);
    printf("%d: epoll %d", signal, epoll_wait(queue, &found, 1, 1000));
    got = read(fd, &shown, sizeof shown);
    printf(" read %d code %d\n", got == sizeof shown, shown.ssi_code);
    close(queue);
}

static void by_waiting(int signal) {
    siginfo_t info = {0};
    pid_t child = later(signal);
    struct timespec limit = {5, 0};
    int got = sigtimedwait(&set, &info, &limit);
    printf("%d: wait %d code %d value %d\n", signal, got, info.si_code, info.si_value.sival_int);
    reap(child);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal, .sigev_value.sival_int = 9};
    struct itimerspec soon = {.it_value.tv_nsec = 20000000};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &soon, 0);
    got = sigwaitinfo(&set, &info);
    printf("%d: timer %d code %d value %d\n", signal, got, info.si_code, info.si_value.sival_int);
    timer_delete(timer);
    int seen = 0;
    pthread_t thread;
    pthread_create(&thread, 0, waiter, &seen);
    usleep(30000);
    kill(getpid(), signal);
    pthread_join(thread, 0);
    printf("%d: thread %d\n", signal, seen);
}

int main(int argc, char **argv) {
    sigemptyset(&set);
    for (int i = 0; i < 6; i++) sigaddset(&set, all[i]);
    if (argc > 1 && strcmp(argv[1], "executed") == 0) {
        pending("after exec");
        return 0;
    }
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, 0);
    sigprocmask(SIG_BLOCK, &set, 0);
    int fd = signalfd(-1, &set, 0);
    for (int i = 0; i < 6; i++) {
        by_descriptor(fd, all[i]);
        by_waiting(all[i]);
    }
    // Handlers of other signals interrupt the waits, or the calls are restarted.
    siginfo_t info;
    ualarm(400000, 0);
    int got = sigwaitinfo(&set, &info);
    printf("interrupted %d %d %d\n", got, errno == EINTR, alarms);
    struct signalfd_siginfo shown;
    ualarm(400000, 0);
    got = read(fd, &shown, sizeof shown);
    printf("interrupted %d %d %d\n", got, errno == EINTR, alarms);
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, 0);
    pthread_t thread;
    void *result;
    pthread_create(&thread, 0, reader, &fd);
    usleep(20000);
    pthread_kill(thread, SIGALRM);
    while (alarms < 3) usleep(1000);
    kill(getpid(), SIGFPE);
    pthread_join(thread, &result);
    printf("restarted %ld %d\n", (long)result, alarms);
    kill(getpid(), SIGSEGV);
    pthread_kill(pthread_self(), SIGTRAP);
    pending("before fork");
    fflush(stdout);
    if (fork() == 0) {
        pending("in child");
        fflush(stdout);
        _exit(0);
    }
    reap(-1);
    execl("/proc/self/exe", argv[0], "executed", (char *)0);
    return 1;
}
