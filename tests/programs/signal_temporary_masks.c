// Calls that wait under a mask of their own: a handler that interrupts one runs under that mask, its own and its signal,
// and its return restores the program's. So signals that the temporary mask blocks do not nest, and those that it opens do.
// build: cc -O1
// run: no-oracle io_uring and epoll are used by system calls whose results a stepped program sees at other times
#define _GNU_SOURCE
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
static int depth;
static const int shown[] = {SIGUSR1, SIGUSR2, SIGSEGV, SIGTRAP, SIGALRM, SIGHUP};
static void say(const char *text, int length) { if (write(1, text, length) != length) _exit(9); }
static int bits(const sigset_t *set) {
    int all = 0;
    for (int i = 0; i < 6; i++) all |= sigismember(set, shown[i]) << 4 * i;
    return all;
}
static void handler(int sig, siginfo_t *info, void *context) {
    char line[200];
    sigset_t now, pending;
    sigprocmask(SIG_BLOCK, 0, &now);
    sigpending(&pending);
    say(line, snprintf(line, sizeof line, "  > signal %d depth %d mask %06x restores %06x pending %06x\n", sig, depth, bits(&now), bits(&((ucontext_t *)context)->uc_sigmask), bits(&pending)));
    depth++;
    if (sig == SIGUSR1 || sig == SIGSEGV) raise(SIGUSR2), raise(SIGALRM), raise(SIGTRAP);
    depth--;
    say(line, snprintf(line, sizeof line, "  < signal %d\n", sig));
}
static int epoll, ring = -1;
static aio_context_t aio;
static long call(int which, sigset_t *mask, long ms) {
    struct timespec none = {ms / 1000, ms % 1000 * 1000000};
    struct epoll_event event;
    struct io_event done;
    struct { const sigset_t *set; size_t size; } sized = {mask, 8};
    struct io_uring_getevents_arg arg = {.sigmask = (uintptr_t)mask, .sigmask_sz = 8, .ts = (uintptr_t)&none};
    switch (which) {
    case 0: return syscall(SYS_rt_sigsuspend, mask, 8);
    case 1: return syscall(SYS_ppoll, 0, 0, &none, mask, 8);
    case 2: return syscall(SYS_pselect6, 0, 0, 0, 0, &none, &sized);
    case 3: return syscall(SYS_epoll_pwait, epoll, &event, 1, ms, mask, 8);
    case 4: return syscall(441 /* epoll_pwait2 */, epoll, &event, 1, &none, mask, 8);
    case 5: return syscall(SYS_io_pgetevents, aio, 1, 1, &done, &none, &sized);
    default: return syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof arg);
    }
}
static void set_of(sigset_t *set, int wanted) {
    sigemptyset(set);
    for (int i = 0; i < 6; i++) if (wanted >> 4 * i & 1) sigaddset(set, shown[i]);
}
static void install(int sig, int mask, int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    set_of(&action.sa_mask, mask);
    sigaction(sig, &action, 0);
}
int main(void) {
    // usr1 is bit 0, usr2 4, segv 8, trap 12, alrm 16, hup 20.
    static const struct { const char *what; int base, temporary, first, second; } cases[] = {
        {"opens one, blocks others", 0x111111, 0x111110, SIGUSR1, 0},
        {"opens one, base blocks nothing else", 0x000001, 0x110010, SIGUSR1, 0},
        {"blocks more than the base", 0x000001, 0x111110, SIGUSR1, 0},
        {"opens two", 0x111111, 0x111010, SIGUSR1, SIGUSR2},
        {"opens two, one blocks the other", 0x111111, 0x011110, SIGUSR1, SIGHUP},
        {"opens a fault's", 0x111111, 0x111011, SIGSEGV, 0},
        {"blocks a fault's", 0x000001, 0x001110, SIGUSR1, 0},
        {"opens a fault's and another", 0x111111, 0x111010, SIGSEGV, SIGUSR1},
    };
    static const char *const calls[] = {"sigsuspend", "ppoll", "pselect6", "epoll_pwait", "epoll_pwait2", "io_pgetevents", "io_uring_enter"};
    struct io_uring_params params = {0};
    epoll = epoll_create1(0);
    int has_aio = syscall(SYS_io_setup, 1, &aio) == 0;
    ring = syscall(SYS_io_uring_setup, 1, &params);
    install(SIGUSR1, 0x100000, 0);
    install(SIGUSR2, 0, 0);
    install(SIGSEGV, 0, SA_NODEFER);
    install(SIGTRAP, 0, 0);
    install(SIGALRM, 0, 0);
    install(SIGHUP, 0, 0);
    for (int which = 0; which < 7; which++) for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[200];
        sigset_t base, temporary, nothing, now, pending;
        set_of(&base, cases[i].base);
        set_of(&temporary, cases[i].temporary);
        sigemptyset(&nothing);
        sigprocmask(SIG_SETMASK, &base, 0);
        say(line, snprintf(line, sizeof line, "%s %s\n", calls[which], cases[i].what));
        if (which == 5 && !has_aio || which == 6 && ring < 0) continue;
        raise(cases[i].first);
        if (cases[i].second) raise(cases[i].second);
        long result = call(which, &temporary, 20000);
        sigprocmask(SIG_BLOCK, 0, &now);
        sigpending(&pending);
        say(line, snprintf(line, sizeof line, "  result %ld mask %06x pending %06x\n", result, bits(&now), bits(&pending)));
        sigprocmask(SIG_SETMASK, &nothing, 0);
        // A call that only times out leaves the mask, too.
        if (which) {
            sigprocmask(SIG_SETMASK, &base, 0);
            result = call(which, &temporary, 0);
            sigprocmask(SIG_BLOCK, 0, &now);
            say(line, snprintf(line, sizeof line, "  timed out %d mask %06x\n", result == 0 || which == 6, bits(&now)));
        }
    }
    return 0;
}
