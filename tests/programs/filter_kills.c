// Filters that kill a thread or the process, for calls that the kernel makes and for calls
// that the engine makes: the status, and what goes on.
// build: cc -O1 -pthread
// run: oracle own-functions
// run: no-counts it asks again and again whether a thread is gone
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void install(long nr, unsigned verdict) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, verdict),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(77);
}
static void handler(int sig) { (void)!write(1, "never\n", 6); }
static volatile int began, ended;
static long number;
static void *victim(void *arg) {
    began = 1;
    while (!ended) {
        if (number == SYS_getppid) syscall(SYS_getppid);
        else if (number == SYS_munmap) syscall(SYS_munmap, 1, 2);
        else syscall(number, 0, 0, 0);
    }
    return 0;
}
static void alone(unsigned verdict) {
    signal(SIGSYS, handler);
    install(number, verdict);
    syscall(number, 0, 0, 0);
    _exit(3);
}
static void beside(unsigned verdict) {
    pthread_t other;
    install(number, verdict);
    if (pthread_create(&other, 0, victim, 0)) _exit(1);
    // A thread that a filter kills is never joined; its number goes away.
    while (!began) usleep(1000);
    char path[64];
    for (int tasks = 2; tasks > 1;) {
        snprintf(path, sizeof path, "/proc/self/task");
        usleep(1000);
        FILE *status = fopen("/proc/self/status", "r");
        char line[200];
        while (fgets(line, sizeof line, status)) if (sscanf(line, "Threads: %d", &tasks) == 1) break;
        fclose(status);
    }
    (void)!write(1, "alone again\n", 12);
    void *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ended = 1;
    number = SYS_getuid;
    if (pthread_create(&other, 0, victim, page) || pthread_join(other, 0)) _exit(2);
    _exit(4);
}
static void show(const char *what, long nr, void (*run)(unsigned), unsigned verdict) {
    int status;
    number = nr;
    fflush(stdout);
    if (!fork()) run(verdict);
    wait(&status);
    printf("%s %ld %08x: exit %d signal %d\n", what, nr, verdict, WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}
int main(void) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    long calls[] = {SYS_getppid, SYS_munmap, SYS_rt_sigsuspend, SYS_fork, SYS_execve, SYS_exit_group, SYS_prctl};
    for (int i = 0; i < 7; i++) {
        show("process", calls[i], alone, SECCOMP_RET_KILL_PROCESS);
        show("thread", calls[i], alone, SECCOMP_RET_KILL_THREAD);
        show("unknown action", calls[i], alone, 0x12340000);
    }
    show("one of two", SYS_getppid, beside, SECCOMP_RET_KILL_THREAD);
    show("one of two", SYS_munmap, beside, SECCOMP_RET_KILL_THREAD);
    show("one of two", SYS_rt_sigpending, beside, SECCOMP_RET_KILL_THREAD);
    show("both", SYS_getppid, beside, SECCOMP_RET_KILL_PROCESS);
    show("both", SYS_rt_sigpending, beside, SECCOMP_RET_KILL_PROCESS);
    return 0;
}
