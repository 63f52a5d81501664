// SIGSEGV, SIGFPE and SIGTRAP sent by kill are not faults: si_code says so,
// nothing is executed again, an ignored one is ignored.
// build: cc -O1
// run: oracle own-functions
// run: oracle-args stepped
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile int count, code;
static void handler(int sig, siginfo_t *info, void *context) { count++; code = info->si_code; }
int main(int argc, char **argv) {
    static const int all[] = {SIGSEGV, SIGFPE, SIGTRAP, SIGILL, SIGBUS, SIGSYS};
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    for (int i = 0; i < 6; i++) {
        if (argc > 1 && all[i] == SIGTRAP) continue; // a stepper needs it
        sigaction(all[i], &action, 0);
        count = 0;
        kill(getpid(), all[i]);
        int by_kill = code == SI_USER;
        raise(all[i]);
        int by_raise = code == SI_TKILL;
        signal(all[i], SIG_IGN);
        kill(getpid(), all[i]);
        printf("%d: %d %d %d\n", all[i], count, by_kill, by_raise);
    }
    return 0;
}
