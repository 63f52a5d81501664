// Signals sent to itself in all ways, nested, blocked and queued with values.
static u64 digest;
static void on_signal(int sig, siginfo_t *info, void *context) {
    digest = mix(digest, work((u64)sig));
    digest = mix(mix(digest, (u64)info->si_code), info->si_code == SI_QUEUE ? (u64)info->si_value.sival_int : 0);
    if (sig == SIGUSR1) raise(SIGUSR2);
}
int main(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    int all[] = {SIGUSR1, SIGUSR2, SIGRTMIN, SIGRTMIN + 1};
    sigset_t blocked, old, pending;
    sigemptyset(&blocked);
    for (int i = 0; i < 4; i++) {
        MUST(sigaction(all[i], &action, 0));
        if (i) sigaddset(&blocked, all[i]);
    }
    for (int i = 0; i < 6; i++) {
        raise(SIGUSR1);
        MUST(kill(getpid(), SIGRTMIN));
        MUST(sigprocmask(SIG_BLOCK, &blocked, &old));
        for (int value = 0; value < 3; value++) {
            MUST(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = value}));
            MUST(syscall(SYS_tgkill, getpid(), gettid(), SIGRTMIN + 1));
        }
        digest = mix(digest, work((u64)i));
        MUST(sigpending(&pending));
        digest = mix(digest, (u64)sigismember(&pending, SIGRTMIN));
        MUST(sigprocmask(SIG_SETMASK, &old, 0));
    }
    show("digest", digest);
}
