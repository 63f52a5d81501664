// Bare clone calls: a thread without a library, a child that shares memory, one that shares nothing.
#include <sched.h>
static u64 results[3];
static int child(void *number) {
    long i = (long)number;
    results[i] = work((u64)i + 10);
    return (int)(results[i] & 63);
}
int main(void) {
    static const int flags[3] = {CLONE_VM | SIGCHLD, CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, CLONE_FS | SIGCHLD};
    u64 digest = 0;
    for (long round = 0; round < 2; round++)
        for (long i = 0; i < 3; i++) {
            char *stack = malloc(1 << 18);
            int status;
            pid_t pid = clone(child, stack + (1 << 18), flags[i], (void *)i);
            MUST(pid);
            digest = mix(digest, work((u64)i));
            MUST(waitpid(pid, &status, 0));
            digest = mix(mix(digest, (u64)status), i == 2 ? 0 : results[i]);
            free(stack);
        }
    show("digest", digest);
}
