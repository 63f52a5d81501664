// sigaltstack: bad flags, sizes and pointers, what a thread, a fork, a vfork
// and exec inherit.
// build: cc -O1 -pthread
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static char room[65536];
static void show(const char *what, long r) { printf("%s %ld %s\n", what, r, r < 0 ? strerrorname_np(errno) : "-"); }
static void look(const char *who) { stack_t s; sigaltstack(0, &s); printf("%s: own %d size %zu flags %x\n", who, s.ss_sp == room, s.ss_size, s.ss_flags); fflush(stdout); }
static void *thread(void *arg) { look("thread"); return 0; }
int main(int argc, char **argv) {
    if (argc > 1) { look("exec"); return 0; }
    look("start");
    stack_t s = {.ss_sp = room, .ss_size = sizeof room};
    for (int flags = 3; flags < 9; flags++) { s.ss_flags = flags; show("flags", sigaltstack(&s, 0)); }
    s.ss_flags = 1u << 31 | SS_DISABLE;
    show("disarm and disable", sigaltstack(&s, 0));
    look("after it");
    s.ss_flags = 0x40000000;
    show("unknown flag", sigaltstack(&s, 0));
    s.ss_flags = 0;
    s.ss_size = 2047;
    show("small", sigaltstack(&s, 0));
    s.ss_size = getauxval(AT_MINSIGSTKSZ) - 1;
    show("a byte too small", sigaltstack(&s, 0));
    s.ss_size++;
    show("smallest", sigaltstack(&s, 0));
    show("bad new", syscall(SYS_sigaltstack, 8, 0));
    show("bad old", syscall(SYS_sigaltstack, 0, 8));
    s.ss_size = 20000;
    show("bad old, good new", syscall(SYS_sigaltstack, &s, 8));
    look("after it");
    s.ss_flags = SS_ONSTACK;
    show("on stack", sigaltstack(&s, 0));
    look("after it");
    pthread_t t;
    pthread_create(&t, 0, thread, 0);
    pthread_join(t, 0);
    if (!fork()) { look("fork"); _exit(0); }
    wait(0);
    if (!vfork()) { look("vfork"); _exit(0); }
    wait(0);
    s.ss_flags = SS_DISABLE;
    show("off", sigaltstack(&s, 0));
    look("off");
    s.ss_flags = 0;
    sigaltstack(&s, 0);
    fflush(stdout);
    execl("/proc/self/exe", argv[0], "x", (char *)0);
    return 1;
}
