// A timer every 50 microseconds while indirect calls and jumps fault, and while
// stores change the code behind them: a fault shows no trap flag that is not
// the program's, and no alarm is lost, however both come together.
// build: cc -O1
// run: nondeterministic-counts
// run: timeout 60
// run: no-oracle a timer every 50 microseconds leaves a stepped program no time to get on
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#define TRAP_FLAG 0x100
static volatile unsigned faults, alarms, traps, blocked;
static void on_fault(int sig, siginfo_t *info, void *context) {
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    traps += (regs[REG_EFL] & TRAP_FLAG) != 0;
    blocked += sigismember(&((ucontext_t *)context)->uc_sigmask, SIGUSR1);
    faults++;
    regs[REG_RIP] = regs[REG_R13];
}
static void on_alarm(int sig) { alarms++; }
// loop: incb 1f+1(%rip); mov $0,%al (1: its imm); add %al,%ah; dec %edi; jnz loop; ret
static const unsigned char self[] = {0xfe, 0x05, 1, 0, 0, 0, 0xb0, 0, 0x00, 0xc4, 0xff, 0xcf, 0x75, 0xf2, 0xc3};
int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, 0);
    action = (struct sigaction){.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    // Far from everything, so that its own data takes a register to reach.
    unsigned char *page = mmap((void *)0x100000000000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, self, sizeof self);
    struct itimerval timer = {{0, 50}, {0, 50}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, 0);
    unsigned sum = 0, wanted = 0;
    for (int i = 0; i < 2500; i++) {
        asm volatile("lea 1f(%%rip), %%r13; call *16(%0)\n1: lea 2f(%%rip), %%r13; jmp *24(%0)\n"
                     "2: lea 3f(%%rip), %%r13; incl 8(%0)\n3:" : : "r"(0ul) : "r13", "memory", "cc");
        wanted += 3;
        unsigned result, times = 1 + (i & 3);
        asm volatile("xor %%eax, %%eax; call *%2" : "=&a"(result), "+D"(times) : "r"(page) : "memory", "cc");
        sum = sum * 31 + result;
    }
    // An alarm that was lost took the ones after it along: they stay blocked.
    for (unsigned more = alarms + 20; alarms < more;) ;
    setitimer(ITIMER_REAL, &off, 0);
    printf("%08x faults %d traps %u blocked %u\n", sum, faults == wanted, traps, blocked);
    return 0;
}
