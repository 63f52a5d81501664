// A tracer attaches to children that have run for a while: in a loop, in calls that wait, by
// attach and by seize, and to a vfork child from another thread. It sees the program's own code,
// the calls go on after it, and the children end as without it.
// build: cc -O1 -pthread -fno-pie -no-pie
// run: no-oracle it is a debugger itself, and a process has only one
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
extern char __executable_start[], etext[];
static volatile int *go, *ready, tracee;
static int pipes[2];
static void handler(int number) { go[1] += number; }
__attribute__((noinline)) static void spin(void) { while (!*go) {} }
static void in_a_loop(void) { *ready = 1; spin(); }
static void in_a_read(void) { char byte; *ready = 1; if (read(pipes[0], &byte, 1) != 1 || byte != 'x') _exit(9); }
static void in_a_poll(void) { struct pollfd fd = {pipes[0], POLLIN, 0}; *ready = 1; if (poll(&fd, 1, -1) != 1) _exit(8); in_a_read(); }
static void in_a_sleep(void) { struct timespec time = {0, 300000000}; *ready = 1; if (clock_nanosleep(CLOCK_MONOTONIC, 0, &time, 0)) _exit(7); }
static void in_sigsuspend(void) { sigset_t none; sigemptyset(&none); *ready = 1; sigsuspend(&none); }
static struct { const char *name; void (*wait)(void); } ways[] = {
    {"loop", in_a_loop}, {"read", in_a_read}, {"poll", in_a_poll}, {"sleep", in_a_sleep}, {"sigsuspend", in_sigsuspend}};
static void release(pid_t pid) {
    *go = 1;
    if (write(pipes[1], "x", 1) != 1) exit(1);
    kill(pid, SIGUSR1);
}
static void look(pid_t pid, int seize) {
    struct user_regs_struct regs;
    int status;
    while (!*ready) usleep(1000);
    usleep(20000);
    long result = ptrace(seize ? PTRACE_SEIZE : PTRACE_ATTACH, pid, 0, 0);
    if (seize) ptrace(PTRACE_INTERRUPT, pid, 0, 0);
    waitpid(pid, &status, __WALL);
    ptrace(PTRACE_GETREGS, pid, 0, &regs);
    long before = ptrace(PTRACE_PEEKTEXT, pid, regs.rip - 2, 0) & 0xffff;
    int own = regs.rip >= (unsigned long)__executable_start && regs.rip < (unsigned long)etext;
    printf("result %ld, stopped by %d, %s, %s\n", result, WSTOPSIG(status), own ? "in the program" : "elsewhere", before == 0x050f ? "in a call" : "in no call");
    if (!own && before != 0x050f) printf("at %llx\n", regs.rip);
    ptrace(PTRACE_DETACH, pid, 0, 0);
}
static void *from_a_thread(void *argument) {
    while (!tracee) usleep(1000);
    look(tracee, (long)argument);
    release(tracee);
    return 0;
}
static void by_vfork(int seize) {
    pthread_t tracer;
    tracee = 0;
    pthread_create(&tracer, 0, from_a_thread, (void *)(long)seize);
    pid_t pid = vfork();
    if (!pid) {
        tracee = getpid();
        *ready = 1;
        spin();
        _exit(11);
    }
    int status;
    pthread_join(tracer, 0);
    waitpid(pid, &status, 0);
    printf("vfork: exit %d\n", WEXITSTATUS(status));
}
int main(void) {
    go = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ready = go + 8;
    signal(SIGUSR1, handler);
    sigset_t user;
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    sigprocmask(SIG_BLOCK, &user, 0);
    for (int seize = 0; seize < 2; seize++) {
        for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
            int status;
            if (pipe(pipes)) return 1;
            go[0] = go[1] = *ready = 0;
            printf("%s: ", ways[way].name);
            fflush(stdout);
            pid_t pid = fork();
            if (!pid) {
                ways[way].wait();
                sigprocmask(SIG_UNBLOCK, &user, 0);
                while (!go[1]) usleep(100);
                _exit(go[1]);
            }
            look(pid, seize);
            release(pid);
            waitpid(pid, &status, 0);
            printf("%s: %s %d\n", ways[way].name, WIFEXITED(status) ? "exit" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
            close(pipes[0]);
            close(pipes[1]);
        }
        if (pipe(pipes)) return 1;
        go[0] = go[1] = *ready = 0;
        by_vfork(seize);
    }
    return 0;
}
