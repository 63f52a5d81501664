// Children that go on from the middle, exit, are killed, stop and continue.
int main(void) {
    u64 digest = work(1);
    for (int i = 0; i < 6; i++) {
        int status;
        fflush(stdout);
        pid_t child = fork();
        MUST(child);
        if (child == 0) {
            u64 mine = mix(digest, work((u64)i));
            if (i % 3 == 1) kill(getpid(), SIGKILL);
            if (i % 3 == 2) raise(SIGSTOP);
            mine = mix(mine, work(2));
            _exit((int)(mine & 127));
        }
        digest = mix(digest, work(3));
        MUST(waitpid(child, &status, WUNTRACED));
        if (WIFSTOPPED(status)) {
            digest = mix(digest, (u64)WSTOPSIG(status));
            MUST(kill(child, SIGCONT));
            MUST(waitpid(child, &status, 0));
        }
        digest = mix(digest, (u64)status);
    }
    show("digest", digest);
}
