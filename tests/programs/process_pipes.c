// A shell pipeline with background jobs, subshells, traps and exit statuses.
// build: cc -O1
// run: oracle own-functions
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
int main(void) {
    static const char *const lines[] = {
        "seq 1 2000 | sort -r | head -3 | tr '\\n' ' '; echo",
        "(echo a; (echo b; exit 3); echo $?) | cat",
        "sleep 0.01 & sleep 0.02 & wait; echo waited",
        "trap 'echo trapped' USR1; kill -USR1 $$; echo after",
        "x=$(for i in 1 2 3 4 5; do echo $i | cat; done | wc -l); echo $x",
        "yes | head -1; echo $?",
        "exec 3</dev/null; ls -1 /proc/self/fd | wc -l",
        "kill -9 $$",
        "exit 77"};
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
        fflush(stdout);
        int status = system(lines[i]);
        printf("%u: %d %d\n", i, WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    return 0;
}
