// A signal while the stack pointer is nowhere kills with SIGSEGV unless there
// is an alternate stack; then the handler sees the odd stack pointer.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
static void handler(int sig, siginfo_t *info, void *context) {
    char line[64];
    write(1, line, sprintf(line, "rsp %llx signal %d\n", ((ucontext_t *)context)->uc_mcontext.gregs[REG_RSP], sig));
}
static void call_with_stack(long sp, int sig) {
    asm volatile("mov %%rsp, %%r12; mov %0, %%rsp; mov $200, %%eax; syscall; mov %%r12, %%rsp" :: "r"(sp), "D"((long)getpid()), "S"((long)sig) : "rax", "rcx", "r11", "r12", "memory");
}
static void fault_with_stack(long sp) { asm volatile("mov %%rsp, %%r12; mov %0, %%rsp; push %%rax; mov %%r12, %%rsp" :: "r"(sp) : "r12", "memory"); }
int main(void) {
    static const long places[] = {0, 0x10, 0x1008, 0x7ffffffff008, 0x4141414141414141, -8};
    struct rlimit core = {0, 0};
    setrlimit(RLIMIT_CORE, &core);
    for (int i = 0; i < 6; i++) for (int how = 0; how < 3; how++) {
        fflush(stdout);
        if (!fork()) {
            struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | (how ? SA_ONSTACK : 0) | SA_RESETHAND};
            stack_t s = {.ss_sp = malloc(65536), .ss_size = 65536};
            if (how) sigaltstack(&s, 0);
            sigaction(SIGUSR1, &action, 0);
            sigaction(SIGSEGV, &action, 0);
            sigaction(SIGBUS, &action, 0);
            if (how < 2) call_with_stack(places[i], SIGUSR1); else fault_with_stack(places[i]);
            _exit(3);
        }
        int status;
        wait(&status);
        printf("%lx %d: exit %d signal %d\n", places[i], how, WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    return 0;
}
