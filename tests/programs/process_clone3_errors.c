// clone3's checks of its arguments, one after the other: sizes, unreadable
// structures, unknown fields, contradictory flags; and what is allowed.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#undef CLONE_CLEAR_SIGHAND
#define CLEAR_SIGHAND 0x100000000ULL
#define INTO_CGROUP 0x200000000ULL
static void try(const char *what, void *args, long size) {
    fflush(stdout);
    long pid = syscall(SYS_clone3, args, size);
    if (pid == 0) _exit(5);
    int error = errno, status = 0;
    if (pid > 0) { waitpid(pid, &status, __WALL); printf("%s: child %x\n", what, status); }
    else printf("%s: %s\n", what, strerrorname_np(error));
}
int main(void) {
    union { struct clone_args a; char room[8192]; } u;
    char *edge = (char *)mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096;
    munmap(edge, 4096);
#define FRESH memset(&u, 0, sizeof u); u.a.exit_signal = SIGCHLD
    FRESH;
    static const int sizes[] = {0, 8, 63, 64, 72, 80, 88, 96, 4096, 4097, 8192};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) { char text[20]; sprintf(text, "size %d", sizes[i]); try(text, &u, sizes[i]); }
    try("size -1", &u, -1);
    u.room[200] = 1;
    try("unknown field", &u, 256);
    FRESH;
    try("null", 0, 88);
    try("null, short", 0, 8);
    memcpy(edge - 64, &u, 64);
    try("at the edge", edge - 64, 64);
    try("over the edge", edge - 64, 88);
    u.a.flags = 1ULL << 40; try("unknown flag", &u, 88);
    FRESH; u.a.flags = 1; try("signal in flags", &u, 88);
    FRESH; u.a.exit_signal = 65; try("signal 65", &u, 88);
    FRESH; u.a.exit_signal = 1ULL << 40; try("signal huge", &u, 88);
    FRESH; u.a.exit_signal = 0; try("no signal", &u, 88);
    FRESH; u.a.exit_signal = SIGUSR2; signal(SIGUSR2, SIG_IGN); try("other signal", &u, 88);
    FRESH; u.a.flags = CLONE_THREAD; try("thread without memory", &u, 88);
    FRESH; u.a.flags = CLONE_SIGHAND; try("handlers without memory", &u, 88);
    FRESH; u.a.flags = CLONE_SIGHAND | CLONE_VM | CLEAR_SIGHAND; try("shared and cleared", &u, 88);
    FRESH; u.a.flags = CLONE_FS | CLONE_NEWNS; try("fs and namespace", &u, 88);
    FRESH; u.a.stack = 0x1000; try("stack without size", &u, 88);
    FRESH; u.a.stack_size = 0x1000; try("size without stack", &u, 88);
    FRESH; u.a.set_tid_size = 1; try("set_tid null", &u, 88);
    FRESH; u.a.set_tid_size = 100; u.a.set_tid = (long)&u; try("set_tid many", &u, 88);
    FRESH; u.a.flags = INTO_CGROUP; u.a.cgroup = -1; try("bad cgroup", &u, 88);
    FRESH; u.a.flags = CLONE_PIDFD; u.a.pidfd = 8; try("pidfd nowhere", &u, 88);
    FRESH; u.a.flags = CLONE_DETACHED; try("detached", &u, 88);
    FRESH; u.a.flags = CLEAR_SIGHAND; try("handlers cleared", &u, 88);
    FRESH; u.a.flags = CLONE_VFORK; try("vfork without memory", &u, 88);
    return 0;
}
