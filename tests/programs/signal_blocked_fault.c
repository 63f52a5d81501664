// A fault while its signal is blocked or ignored kills all the same; each of
// the synchronous signals is tried in a child.
// build: cc -O1
// run: oracle own-functions
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static void handler(int sig) { _exit(50); }
static void fault(int kind) {
    volatile int zero = 0;
    switch (kind) {
        case 0: *(volatile int *)16 = 1; break;
        case 1: zero = 1 / zero; break;
        case 2: asm volatile("ud2"); break;
        case 3: asm volatile("int3"); break;
    }
    _exit(60);
}
int main(void) {
    static const int signals[] = {SIGSEGV, SIGFPE, SIGILL, SIGTRAP};
    struct rlimit core = {0, 0};
    setrlimit(RLIMIT_CORE, &core);
    for (int how = 0; how < 3; how++) for (int kind = 0; kind < 4; kind++) {
        pid_t pid = fork();
        if (!pid) {
            sigset_t set;
            sigemptyset(&set);
            sigaddset(&set, signals[kind]);
            if (how == 0) { signal(signals[kind], handler); sigprocmask(SIG_BLOCK, &set, 0); }
            if (how == 1) signal(signals[kind], SIG_IGN);
            fault(kind);
        }
        int status;
        waitpid(pid, &status, 0);
        printf("%d %d: signal %d exit %d core %d\n", how, kind, WIFSIGNALED(status) ? WTERMSIG(status) : 0, WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) && WCOREDUMP(status));
    }
    return 0;
}
