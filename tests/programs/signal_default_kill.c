// Death by a signal sent to itself: the parent sees that signal.
// build: cc -O1
// run: signal TERM
// run: oracle
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
int main(void) { printf("before\n"); fflush(stdout); kill(getpid(), SIGTERM); for (;;) pause(); }
