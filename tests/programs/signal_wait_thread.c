// All threads block the signals and one waits for them with sigwait, as Java's
// runtime does; others raise faults of their own meanwhile.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: oracle own-functions
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
static sigset_t set;
static volatile int stop, faults, seen[65];
static char *page;
static void fault(int sig, siginfo_t *info, void *context) { __sync_fetch_and_add(&faults, 1); mprotect((void *)((long)info->si_addr & -4096), 4096, PROT_READ | PROT_WRITE); }
static void *waiter(void *arg) { for (;;) { int s; sigwait(&set, &s); seen[s]++; if (s == SIGQUIT) return 0; } }
static void *worker(void *arg) {
    char *own = page + (long)arg * 4096;
    for (int i = 0; i < 100; i++) { mprotect(own, 4096, PROT_NONE); *(volatile char *)own = i; }
    return 0;
}
int main(void) {
    page = mmap(0, 16384, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    sigfillset(&set);
    sigdelset(&set, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    pthread_t t[4];
    pthread_create(&t[3], 0, waiter, 0);
    for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, worker, (void *)i);
    for (int i = 1; i <= 50; i++) { kill(getpid(), SIGHUP); while (seen[SIGHUP] < i) usleep(10); }
    for (int i = 0; i < 30; i++) sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = i});
    while (seen[SIGRTMIN + 3] < 30) usleep(10);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    kill(getpid(), SIGQUIT);
    pthread_join(t[3], 0);
    printf("hup %d queued %d faults %d\n", seen[SIGHUP], seen[SIGRTMIN + 3], faults);
    return 0;
}
