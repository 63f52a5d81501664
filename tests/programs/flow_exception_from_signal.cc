// An exception thrown in a SIGSEGV or SIGFPE handler unwinds through the
// signal frame into the interrupted function.
// build: c++ -O1 -fnon-call-exceptions -fasynchronous-unwind-tables
// run: oracle own-functions
// run: oracle-args 1
#include <cstdlib>
#include <csignal>
#include <cstdio>
static void handler(int sig) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, sig);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    throw sig;
}
struct Guard { const char *name; ~Guard() { std::puts(name); } };
__attribute__((noinline)) static int load(volatile int *p) { Guard guard{"unwound"}; return *p; }
__attribute__((noinline)) static int divide(volatile int a, volatile int b) { Guard guard{"unwound too"}; return a / b; }
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 3;
    std::signal(SIGSEGV, handler);
    std::signal(SIGFPE, handler);
    for (int i = 0; i < rounds; i++) {
        try { load(reinterpret_cast<int *>(8)); } catch (int sig) { std::printf("caught %d\n", sig); }
        try { divide(1, 0); } catch (int sig) { std::printf("caught %d\n", sig); }
    }
    return 0;
}
