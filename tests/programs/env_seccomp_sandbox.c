// A sandbox of a program's own, as browsers have it: a filter that kills for
// everything but reading, writing, memory, signals, futex and exit. Code that
// was never run before, handlers, allocation and faults still work inside.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define ALLOW(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
static volatile int got;
static void handler(int sig) { got += sig; }
static void skip(int sig, siginfo_t *info, void *context) { got += 100; mprotect((void *)((long)info->si_addr & -4096), 4096, PROT_READ | PROT_WRITE); }
static int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
static void inside(int out) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mprotect), ALLOW(SYS_madvise), ALLOW(SYS_brk),
        ALLOW(SYS_rt_sigaction), ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_rt_sigreturn), ALLOW(SYS_sigaltstack), ALLOW(SYS_futex),
        ALLOW(SYS_gettid), ALLOW(SYS_getpid), ALLOW(SYS_tgkill), ALLOW(SYS_exit), ALLOW(SYS_exit_group), ALLOW(SYS_clock_gettime), ALLOW(SYS_mremap),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) { write(out, "no filters here\n", 16); _exit(0); }
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    struct sigaction action = {.sa_sigaction = skip, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    char *page = mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[17] = 1;
    page[4097] = 2;
    int *numbers = malloc(400000);
    unsigned seed = 1;
    for (int i = 0; i < 100000; i++) { seed = seed * 1103515245 + 12345; numbers[i] = seed >> 8; }
    qsort(numbers, 20000, sizeof *numbers, compare);
    unsigned sum = 0;
    for (int i = 0; i < 20000; i++) sum = sum * 31 + numbers[i];
    free(numbers);
    char line[100];
    int n = snprintf(line, sizeof line, "got %d sum %08x bytes %d %d %.3f\n", got, sum, page[17], page[4097], sum / 7.0);
    write(out, line, n);
    _exit(5);
}
int main(void) {
    int status;
    fflush(stdout);
    if (!fork()) inside(1);
    wait(&status);
    printf("exit %d signal %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return 0;
}
