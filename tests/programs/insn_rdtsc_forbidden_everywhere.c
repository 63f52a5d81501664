// prctl(PR_SET_TSC) in threads, over fork, vfork and exec, and in handlers: whoever forbids
// himself to read the clock of the CPU gets a fault for each reading of his own and no other,
// however much is called meanwhile. Another thread still may.
// build: cc -O1 -pthread -static
// run: no-oracle whether a join waits is the machine's to decide
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
static __thread volatile int faults;
static __thread volatile int calls;
static __attribute__((noinline)) int leaf(int n) { calls++; return n + 1; }
static __attribute__((noinline)) int work(int n) { return n ? leaf(n) + work(n - 1) : 0; }
static void handler(int sig, siginfo_t *info, void *context) {
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    unsigned char *at = (unsigned char *)r[REG_RIP];
    if (at[0] != 0x0f || at[1] != 0x31 || info->si_code != SI_KERNEL) { write(1, "elsewhere\n", 10); _exit(1); }
    faults++;
    work(20);
    r[REG_RIP] += 2;
}
static void on_usr1(int sig) { work(30); }
static void read_clock(void) { asm volatile("rdtsc" ::: "rax", "rdx"); }
static int tried(void) { int before = faults; work(10); read_clock(); work(10); return faults - before; }
static void *forbids(void *arg) {
    int first = tried();
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    return (void *)(long)(first * 100 + tried() * 10 + tried());
}
static void *is_asked(void *arg) { return (void *)(long)tried(); }
static long in_thread(void *(*what)(void *)) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, 0, what, 0);
    pthread_join(thread, &result);
    return (long)result;
}
static int ended(void) { int status = 0; wait(&status); return WIFSIGNALED(status) ? 100 + WTERMSIG(status) : WEXITSTATUS(status); }
int main(int argc, char **argv) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    signal(SIGUSR1, on_usr1);
    if (argc > 1) { int first = tried(); prctl(PR_SET_TSC, PR_TSC_ENABLE); return 10 * first + tried(); }
    printf("a thread forbids itself: %ld, main %d\n", in_thread(forbids), tried());
    fflush(stdout);
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    raise(SIGUSR1);
    printf("forbidden: %d\n", tried());
    printf("a thread of it: %ld\n", in_thread(is_asked));
    fflush(stdout);
    if (!fork()) _exit(tried());
    printf("a child: %d\n", ended());
    fflush(stdout);
    if (!vfork()) { execl("/proc/self/exe", argv[0], "x", (char *)0); _exit(9); }
    printf("a program: %d\n", ended());
    if (prctl(PR_SET_TSC, 7) != -1) puts("accepted 7");
    printf("still: %d\n", tried());
    prctl(PR_SET_TSC, PR_TSC_ENABLE);
    printf("allowed: %d, work %d\n", tried(), work(40));
    return 0;
}
