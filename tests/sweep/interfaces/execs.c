// The program executes itself: from fork, vfork, posix_spawn, and by descriptor.
#include <spawn.h>
extern char **environ;
int main(int count, char **words) {
    if (count > 1) {
        u64 digest = work(strtoull(words[1], 0, 10));
        if (count == 2) _exit((int)(digest & 127));
        char *again[] = {words[0], words[2], 0};
        if (digest & 1) execv("/proc/self/exe", again);
        else fexecve(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), again, environ);
        _exit(99);
    }
    u64 digest = work(1);
    char *once[] = {words[0], "7", 0}, *twice[] = {words[0], "8", "9", 0};
    for (int i = 0; i < 3; i++) {
        int status;
        pid_t child;
        if (i == 2) posix_spawn(&child, "/proc/self/exe", 0, 0, twice, environ);
        else if ((child = i ? vfork() : fork()) == 0) {
            execv("/proc/self/exe", i ? twice : once);
            _exit(98);
        }
        MUST(waitpid(child, &status, 0));
        digest = mix(mix(digest, (u64)status), work((u64)i));
    }
    show("digest", digest);
}
