// A handler's frame that cannot be written forces SIGSEGV, whose own handler may run: on the alternate stack if the
// frame that failed was to go elsewhere. If that frame cannot be written either, or SIGSEGV is blocked or ignored, the
// process ends by SIGSEGV. SA_RESETHAND has taken effect, no signal of the frame that failed is blocked, and the thread
// goes on where it was.
// build: cc -O1
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
static char *room, *good, *bad;
static long interrupted;
static int blocked(ucontext_t *context, int sig) { return sigismember(&context->uc_sigmask, sig); }
static void say(const char *text, int length) { if (write(1, text, length) != length) _exit(9); }
// The thread goes on at the end of `interrupt`, with the stack pointer that it had before.
static void on_segv(int sig, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    char line[200], here;
    struct sigaction usr;
    sigset_t now;
    sigaction(SIGUSR1, 0, &usr);
    sigprocmask(SIG_BLOCK, 0, &now);
    say(line, snprintf(line, sizeof line, "  segv code %d addr %p usr1 blocked %d %d own %d %d usr2 %d %d reset %d on good %d sp as set %d\n", info->si_code, info->si_addr,
        blocked(uc, SIGUSR1), sigismember(&now, SIGUSR1), blocked(uc, SIGSEGV), sigismember(&now, SIGSEGV), blocked(uc, SIGUSR2), sigismember(&now, SIGUSR2),
        usr.sa_handler == SIG_DFL, &here >= good && &here < good + 65536, uc->uc_mcontext.gregs[REG_RSP] == interrupted));
    uc->uc_mcontext.gregs[REG_RSP] = uc->uc_mcontext.gregs[REG_R12];
}
static void on_usr(int sig, siginfo_t *info, void *context) { say("  usr1\n", 7); }
static void no_handler(int sig) { say("  usr2\n", 7); }
static void interrupt(long sp) {
    interrupted = sp;
    asm volatile("mov %%rsp, %%r12; mov %0, %%rsp; mov $200, %%eax; syscall; nop; mov %%r12, %%rsp" :: "r"(sp), "D"((long)gettid()), "S"((long)SIGUSR1) : "rax", "rcx", "r11", "r12", "memory");
}
// Without SA_RESTORER, which the C library always sets.
static void install_bare(int sig, void *handler, unsigned long flags) {
    struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } action = {handler, flags, 0, 0};
    if (syscall(SYS_rt_sigaction, sig, &action, 0, 8)) _exit(8);
}
static void install(int sig, void *handler, int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR2);
    if (sigaction(sig, &action, 0)) _exit(8);
}
static void altstack(void *at, int flags) {
    stack_t s = {.ss_sp = at, .ss_size = 65536, .ss_flags = flags};
    if (sigaltstack(&s, 0)) _exit(8);
}
// Where the stack pointer is when SIGUSR1 comes.
static const char *const places[] = {"here", "read-only", "unmapped", "no access", "null", "non-canonical", "kernel", "not quite room"};
static long place(int which) {
    switch (which) {
    case 1: mprotect(bad, 65536, PROT_READ); return (long)bad + 32768;
    case 2: munmap(bad, 65536); return (long)bad + 32768;
    case 3: mprotect(bad, 65536, PROT_NONE); return (long)bad + 32768;
    case 4: return 0;
    case 5: return 0x4141414141414140;
    case 6: return -4096;
    case 7: mprotect(bad, 4096, PROT_NONE); return (long)bad + 4096 + 600;
    }
    return ((long)good + 32768) & -16;
}
static void run(int which, int how) {
    install(SIGSEGV, on_segv, how == 8 ? 0 : SA_ONSTACK);
    install(SIGUSR1, on_usr, how == 1 ? SA_RESETHAND : how == 2 ? SA_ONSTACK : how == 6 ? SA_NODEFER : 0);
    if (how == 2) {
        // Its alternate stack is bad: so is that of SIGSEGV, which has none to go to but that.
        altstack(bad, 0);
        if (place(which) == (long)good + 32768) _exit(7);
        install(SIGSEGV, on_segv, 0);
        interrupt(((long)good + 32768) & -16);
        _exit(3);
    }
    altstack(good, how == 3 ? 1 << 31 : 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    if (how == 4) sigprocmask(SIG_BLOCK, &set, 0);
    if (how == 5) signal(SIGSEGV, SIG_IGN);
    if (how == 7) install_bare(SIGUSR1, no_handler, 0);
    if (how == 9) install(SIGUSR1, on_usr, 0), install_bare(SIGSEGV, on_segv, SA_SIGINFO | SA_ONSTACK);
    interrupt(place(which));
    _exit(3);
}
int main(void) {
    struct rlimit core = {0, 0};
    setrlimit(RLIMIT_CORE, &core);
    static const char *const hows[] = {"plain", "reset", "bad altstack", "autodisarm", "segv blocked", "segv ignored", "nodefer", "no restorer", "segv without altstack", "segv no restorer"};
    room = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    good = room + (256 << 10);
    bad = room + (512 << 10);
    for (int how = 0; how < 10; how++) for (int which = how == 2; which < 8; which++) {
        if (how && how != 2 && which > 3) continue;
        if (how == 2 && which > 3 && which != 7) continue;
        printf("%s, %s\n", hows[how], places[which]);
        fflush(stdout);
        if (!fork()) run(which, how);
        int status;
        wait(&status);
        printf("  exit %d signal %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    return 0;
}
