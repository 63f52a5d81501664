// The kernel looks at a signal's action when it takes the signal: a handler that another thread
// removes after that is called nevertheless. One thread sends signals to the process, sees them
// taken, and restores the default action, which would end the process.
// build: cc -O1 -pthread
// run: nondeterministic-counts
// run: timeout 60
// run: no-oracle how often a thread polls is a matter of time
// run: no-order how often a thread polls is a matter of time
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 1000 };

static atomic_int handled, done;
static volatile unsigned long work;

static void on_signal(int signal) {
    (void)signal;
    handled++;
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    // Behind `mov (%rax), %rax` of three bytes.
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 3;
}

// Calls that change masks, and faults: a signal may be taken in front of each.
static void *worker(void *unused) {
    sigset_t set, other;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigemptyset(&other);
    sigaddset(&other, SIGUSR2);
    while (!done) {
        for (int i = 0; i < 50; i++) {
            work += i * work;
        }
        pthread_sigmask(SIG_BLOCK, &set, 0);
        pthread_sigmask(SIG_UNBLOCK, &set, 0);
        syscall(SYS_getppid);
        pthread_sigmask(SIG_BLOCK, &other, 0);
        __asm__ volatile("mov (%%rax), %%rax" : : "a"(16) : "memory");
        pthread_sigmask(SIG_UNBLOCK, &other, 0);
    }
    return unused;
}

static int is_pending(int signal) {
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, signal);
}

int main(void) {
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &fault, 0);
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    int reset = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
        if (i % 2) {
            action.sa_flags |= SA_RESETHAND;
        }
        sigaction(SIGUSR1, &action, 0);
        kill(getpid(), SIGUSR1);
        while (is_pending(SIGUSR1)) {
        }
        action.sa_handler = SIG_DFL;
        sigaction(SIGUSR1, &action, &before);
        reset += before.sa_handler == SIG_DFL;
        while (handled <= i) {
        }
    }
    done = 1;
    pthread_join(thread, 0);
    printf("handled %d, reset %d\n", handled, reset);
    return 0;
}
