/* Threads wait in every system call that a signal with a handler would end early; each call
   has to take its time and to end as it does when nothing happens. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>

enum { MS = 60, TURNS = 12 };
static const struct timespec once = {0, MS * 1000000L};

static int by_nanosleep(void) { return nanosleep(&once, 0); }
static int by_clock(void) { return clock_nanosleep(CLOCK_MONOTONIC, 0, &once, 0); }
static int by_poll(void) { return poll(0, 0, MS); }
static int by_ppoll(void) { return ppoll(0, 0, &once, 0); }
static int by_select(void)
{
    struct timeval time = {0, MS * 1000};
    return select(0, 0, 0, 0, &time);
}
static int by_epoll(void)
{
    struct epoll_event event;
    int fd = epoll_create1(0), got = epoll_wait(fd, &event, 1, MS);
    close(fd);
    return got;
}
static int by_futex(void)
{
    sem_t sem;
    struct timespec end;
    sem_init(&sem, 0, 0);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += MS * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    return sem_timedwait(&sem, &end) == -1 && errno == ETIMEDOUT ? 0 : -1;
}
static int by_sigwait(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return sigtimedwait(&set, 0, &once) == -1 && errno == EAGAIN ? 0 : -1;
}
static int by_semop(void)
{
    int id = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf down = {0, -1, 0};
    int got = semtimedop(id, &down, 1, &once) == -1 && errno == EAGAIN ? 0 : -1;
    semctl(id, 0, IPC_RMID);
    return got;
}

static int (*const ways[])(void) = {by_nanosleep, by_clock, by_poll,    by_ppoll, by_select,
                                    by_epoll,     by_futex, by_sigwait, by_semop};
enum { WAYS = sizeof ways / sizeof *ways };
static const char *const names[] = {"nanosleep", "clock_nanosleep", "poll",  "ppoll", "select",
                                    "epoll",     "futex",           "sigwait", "semop"};

static void *waits(void *number)
{
    long way = (long)number, bad = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        int got = ways[way]();
        clock_gettime(CLOCK_MONOTONIC, &to);
        double ms = (to.tv_sec - from.tv_sec) * 1e3 + (to.tv_nsec - from.tv_nsec) / 1e6;
        if (got != 0 || ms < MS - 1)
            bad++;
    }
    return (void *)bad;
}

int main(void)
{
    pthread_t threads[WAYS];
    void *bad;
    for (long i = 0; i < WAYS; i++)
        pthread_create(&threads[i], 0, waits, (void *)i);
    int all = 0;
    for (long i = 0; i < WAYS; i++) {
        pthread_join(threads[i], &bad);
        if (bad)
            printf("%s: %ld\n", names[i], (long)bad);
        all |= bad != 0;
    }
    puts("waited");
    return all;
}
