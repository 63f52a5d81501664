// Nested handlers: a signal inside a handler, sa_mask holding one back,
// SA_NODEFER recursion, SA_RESETHAND, the mask inside and after.
// build: cc -O1
// run: oracle own-functions
#include <signal.h>
#include <stdio.h>
#include <string.h>
static volatile int depth;
static char line[4096];
static void note(const char *text, int sig) { sprintf(line + strlen(line), "%*s%s %d\n", depth * 2, "", text, sig); }
static void plain(int sig) {
    note("enter", sig); depth++;
    static int again;
    if (sig == SIGUSR1 && !again++) { raise(SIGUSR2); raise(SIGUSR1); raise(SIGTERM); }
    depth--; note("leave", sig);
}
static void recursive(int sig) { note("enter", sig); depth++; if (depth < 5) raise(sig); depth--; note("leave", sig); }
int main(void) {
    struct sigaction action = {.sa_handler = plain}, old;
    sigaddset(&action.sa_mask, SIGTERM);
    sigaction(SIGUSR1, &action, 0);
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR2, &action, 0);
    sigaction(SIGTERM, &action, 0);
    action.sa_handler = recursive;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGHUP, &action, 0);
    action.sa_flags = SA_RESETHAND;
    sigaction(SIGALRM, &action, 0);
    static int once;
    if (!once++) raise(SIGUSR1);
    raise(SIGHUP);
    depth = 10;
    raise(SIGALRM);
    sigaction(SIGALRM, 0, &old);
    note(old.sa_handler == SIG_DFL ? "reset" : "kept", SIGALRM);
    sigaction(SIGUSR1, 0, &old);
    note(old.sa_handler == plain && sigismember(&old.sa_mask, SIGTERM) ? "same" : "other", SIGUSR1);
    fputs(line, stdout);
    return 0;
}
