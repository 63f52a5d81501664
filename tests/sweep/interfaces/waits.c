// Waiting with a mask for a time: sigsuspend, ppoll, pselect, sigtimedwait, signalfd.
#include <poll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
static u64 digest;
static void on_signal(int sig) {
    sigset_t mask;
    sigprocmask(SIG_BLOCK, 0, &mask);
    digest = mix(mix(digest, work((u64)sig)), (u64)(sigismember(&mask, SIGUSR1) * 2 + sigismember(&mask, SIGUSR2)));
}
int main(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t block, none, second;
    sigemptyset(&none);
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    sigaddset(&block, SIGUSR2);
    sigemptyset(&second);
    sigaddset(&second, SIGUSR2);
    MUST(sigaction(SIGUSR1, &action, 0));
    MUST(sigaction(SIGUSR2, &action, 0));
    MUST(sigprocmask(SIG_BLOCK, &block, 0));
    int fd = signalfd(-1, &second, 0);
    MUST(fd);
    struct timespec hour = {3600, 0};
    for (int i = 0; i < 5; i++) {
        raise(SIGUSR1);
        digest = mix(digest, (u64)sigsuspend(&none));
        raise(SIGUSR1);
        digest = mix(digest, (u64)ppoll(0, 0, &hour, &second));
        raise(SIGUSR1);
        digest = mix(digest, (u64)pselect(0, 0, 0, 0, &hour, &none));
        raise(SIGUSR2);
        siginfo_t info;
        digest = mix(digest, (u64)sigtimedwait(&second, &info, &hour));
        raise(SIGUSR2);
        struct signalfd_siginfo read_info;
        MUST(read(fd, &read_info, sizeof read_info));
        digest = mix(mix(digest, read_info.ssi_signo), work((u64)i));
    }
    show("digest", digest);
}
