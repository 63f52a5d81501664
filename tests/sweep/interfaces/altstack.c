// Handlers on alternate stacks: of the main thread, of a second thread, and disarmed ones.
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31) // linux/signal.h, which does not go with signal.h
#endif
static volatile u64 digest;
static void on_signal(int sig, siginfo_t *info, void *context) {
    stack_t now;
    sigaltstack(0, &now);
    digest = mix(mix(digest, work(5)), (u64)now.ss_flags & ~(u64)SS_AUTODISARM);
}
static void *thread(void *flags) {
    char *memory = malloc(1 << 17);
    stack_t stack = {.ss_sp = memory, .ss_size = 1 << 17, .ss_flags = (int)(long)flags}, off = {.ss_flags = SS_DISABLE};
    for (int i = 0; i < 4; i++) {
        MUST(sigaltstack(&stack, 0));
        pthread_kill(pthread_self(), SIGUSR1);
        digest = mix(digest, work((u64)i));
        MUST(sigaltstack(&off, 0));
        pthread_kill(pthread_self(), SIGUSR1);
    }
    free(memory);
    return 0;
}
int main(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    MUST(sigaction(SIGUSR1, &action, 0));
    thread(0);
    for (long i = 0; i < 2; i++) {
        pthread_t other;
        pthread_create(&other, 0, thread, (void *)(i ? (long)SS_AUTODISARM : 0l));
        pthread_join(other, 0);
    }
    show("digest", digest);
}
