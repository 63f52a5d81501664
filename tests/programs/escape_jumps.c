// Jumps into memory that the program does not have: executable memory that
// only another process sees (a code cache, an engine), and, where there is
// none, gaps. By call, jump, return, a handler, a handler's return and a
// thread's start: each faults as in free memory, at the address, and the
// program goes on. Far returns are left out: they are not caught (docs/limits.md).
// build: cc -O1 -pthread
// run: no-oracle what it finds to try depends on what else is mapped
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
enum { MOST = 500 };
struct view { uintptr_t start[MOST], end[MOST]; int runs[MOST], count; };
static struct view own, *outside;
static void load(struct view *view, pid_t of) {
    char path[60] = "/proc/self/maps", line[600], rights[5];
    if (of) sprintf(path, "/proc/%d/maps", of);
    FILE *file = fopen(path, "r");
    for (view->count = 0; view->count < MOST && fgets(line, sizeof line, file); view->count++) {
        int i = view->count;
        sscanf(line, "%lx-%lx %4s", view->start + i, view->end + i, rights);
        view->runs[i] = rights[2] == 'x';
    }
    fclose(file);
}
static int holds(uintptr_t at) {
    for (int i = 0; i < own.count; i++) if (own.start[i] <= at && at < own.end[i]) return 1;
    return 0;
}
static sigjmp_buf back;
static uintptr_t volatile target;
static volatile int faults, wrong, redirect;
static void on_fault(int sig, siginfo_t *info, void *context) {
    ucontext_t *c = context;
    faults++;
    wrong += info->si_code != SEGV_MAPERR || (uintptr_t)info->si_addr != target || (uintptr_t)c->uc_mcontext.gregs[REG_RIP] != target;
    siglongjmp(back, 1);
}
static void on_usr1(int sig, siginfo_t *info, void *context) {
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] = target;
}
static void *thread(void *arg) {
    if (!sigsetjmp(back, 1)) ((void (*)(void))target)();
    return 0;
}
static void attempt(int how) {
    struct sigaction action = {.sa_sigaction = on_usr1, .sa_flags = SA_SIGINFO};
    if (sigsetjmp(back, 1)) return;
    switch (how) {
    case 0: asm volatile("call *%0" : : "r"(target) : "memory"); break;
    case 1: asm volatile("jmp *%0" : : "m"(target) : "memory"); break;
    case 2: asm volatile("push %0\n\tret" : : "r"(target) : "memory"); break;
    case 3: sigaction(SIGUSR1, &action, 0); raise(SIGUSR1); break;
    case 4: action.sa_handler = (void (*)(int))target; sigaction(SIGUSR1, &action, 0); raise(SIGUSR1); break;
    case 5: { pthread_t t; pthread_create(&t, 0, thread, 0); pthread_join(t, 0); return; }
    }
    wrong += 1000;
}
int main(void) {
    static char other[65536];
    stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
    sigaltstack(&stack, 0);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigaction(SIGSEGV, &action, 0);
    outside = mmap(0, sizeof *outside, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    load(&own, 0);
    pid_t me = getpid(), child = fork();
    if (!child) { load(outside, me); _exit(0); }
    waitpid(child, 0, 0);
    int tried = 0;
    for (int i = 0; i < outside->count && tried < 24; i++) {
        if (!outside->runs[i] || outside->end[i] >> 47) continue;
        for (int part = 0; part < 4; part++) {
            target = outside->start[i] + (outside->end[i] - outside->start[i]) / 4 * part + (part & 1) * 37;
            if (holds(target)) continue;
            for (int how = 0; how < 6; how++) attempt(how), tried++;
        }
    }
    // The same in gaps, so that there is something to do natively.
    for (int i = 0; i + 1 < own.count; i++) {
        for (int part = 1; part < 6; part++) {
            target = own.end[i] + 4096 * part;
            if (holds(target) || target >> 47) continue;
            for (int how = 0; how < 6; how++) attempt(how), tried++;
        }
    }
    printf("tried %d all fault %d wrong %d\n", tried > 0, faults == tried, wrong);
    return 0;
}
