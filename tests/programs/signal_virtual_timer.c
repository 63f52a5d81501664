// Timers that count the program's own CPU time: ITIMER_VIRTUAL, ITIMER_PROF,
// and a POSIX timer of the thread's clock; RLIMIT_CPU's signal.
// build: cc -O1
// run: nondeterministic-counts
// run: no-oracle real-time signals: the ptrace library cannot pass them on
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile int virtual, prof, posix;
static void handler(int sig, siginfo_t *info, void *context) { if (sig == SIGVTALRM) virtual++; if (sig == SIGPROF) prof++; if (sig == SIGRTMIN) posix += info->si_value.sival_int == 55 && info->si_code == SI_TIMER; }
static unsigned work(unsigned x) { for (int i = 0; i < 10000; i++) x = x * 1103515245 + 12345; return x; }
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGVTALRM, &action, 0);
    sigaction(SIGPROF, &action, 0);
    sigaction(SIGRTMIN, &action, 0);
    struct itimerval timer = {{0, 4000}, {0, 4000}}, off = {{0, 0}, {0, 0}};
    unsigned x = 1;
    setitimer(ITIMER_VIRTUAL, &timer, 0);
    while (virtual < 3) x = work(x);
    setitimer(ITIMER_VIRTUAL, &off, 0);
    setitimer(ITIMER_PROF, &timer, 0);
    while (prof < 3) { x = work(x); getppid(); }
    setitimer(ITIMER_PROF, &off, 0);
    timer_t t;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 55};
    timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &t);
    struct itimerspec spec = {{0, 4000000}, {0, 4000000}};
    timer_settime(t, 0, &spec, 0);
    while (posix < 3) x = work(x);
    timer_delete(t);
    printf("virtual %d prof %d posix %d\n", virtual >= 3, prof >= 3, posix >= 3);
    return 0;
}
