// Pipes between processes, with splice, tee and vmsplice, and SIGPIPE at the end.
#include <sys/uio.h>
static volatile sig_atomic_t broken;
static void on_pipe(int sig) { broken++; }
int main(void) {
    int there[2], back[2], spare[2];
    u64 digest = 0, value;
    signal(SIGPIPE, on_pipe);
    MUST(pipe(there));
    MUST(pipe(back));
    MUST(pipe2(spare, O_CLOEXEC));
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        close(there[1]);
        close(back[0]);
        while (read(there[0], &value, 8) == 8) {
            value = work(value);
            MUST(write(back[1], &value, 8));
        }
        _exit(0);
    }
    for (u64 i = 0; i < 20; i++) {
        struct iovec part = {&i, 8};
        MUST(vmsplice(spare[1], &part, 1, 0));
        MUST(tee(spare[0], there[1], 8, 0));
        MUST(read(spare[0], &value, 8));
        digest = mix(digest, value);
        MUST(splice(back[0], 0, spare[1], 0, 8, 0));
        MUST(read(spare[0], &value, 8));
        digest = mix(digest, value);
    }
    close(there[1]);
    MUST(waitpid(child, 0, 0));
    close(there[0]);
    close(spare[0]);
    show("error", write(spare[1], &value, 8) == -1 ? (u64)errno : 0);
    show("broken", (u64)broken);
    show("digest", digest);
}
