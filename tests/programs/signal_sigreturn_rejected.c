// rt_sigreturn of frames that the kernel rejects: SIGSEGV, whose handler sees the registers, mask and alternate stack as
// far as they were restored, and x87 and vector state that is initial or untouched; and frames that it accepts though
// they look odd.
// build: cc -O1
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
// As the kernel lays them out (arch/x86/include/uapi/asm/sigcontext.h).
struct sw { uint32_t magic1, extended_size; uint64_t xfeatures; uint32_t xstate_size, pad[7]; };
struct xstate { struct _libc_fpstate legacy; uint64_t bv, comp, header[6]; };
struct frame { uint64_t pretcode; struct { uint64_t flags; void *link; stack_t stack; gregset_t gregs; struct xstate *fpregs; uint64_t reserved[8], mask; } uc; siginfo_t info; };
enum { SEGV_ON_STACK = 1, SEGV_IGNORED = 2, SEGV_DEFAULT = 4 };
static unsigned char *arena, *stacks[3];
static struct frame saved;
static unsigned char saved_state[16384] __attribute__((aligned(64)));
static uint32_t state_size;
uint64_t landing_stack, landing_flags, landing_rsp;
static uint64_t expected_rsp;
static struct sw *sw_of(struct xstate *state) { return (struct sw *)((char *)state + 464); }
static void say(const char *text, int length) { if (write(1, text, length) != length) _exit(9); }
static void capture(int sig, siginfo_t *info, void *context) {
    memcpy(&saved, (char *)context - 8, sizeof saved);
    state_size = sw_of(saved.uc.fpregs)->extended_size;
    memcpy(saved_state, saved.uc.fpregs, state_size);
}
extern void landed(void), behind_call(void);
asm("landed: mov %rsp, landing_rsp(%rip); mov landing_stack(%rip), %rsp; pushfq; popq landing_flags(%rip); pushq $0x202; popfq; mov %rbx, %rdi; mov %rax, %rsi; call report_landing");
__attribute__((used)) void report_landing(uint64_t rbx, uint64_t rax) {
    char line[200];
    uint32_t mxcsr;
    uint16_t control;
    sigset_t now;
    stack_t stack;
    asm volatile("stmxcsr %0; fnstcw %1" : "=m"(mxcsr), "=m"(control));
    sigprocmask(SIG_BLOCK, 0, &now);
    sigaltstack(0, &stack);
    int at = 0;
    while (at < 3 && stack.ss_sp != stacks[at]) at++;
    say(line, snprintf(line, sizeof line, "  landed rbx %lx rax %lx rsp right %d flags %lx mxcsr %x control %x usr2 %d altstack %d flags %x\n", rbx, rax,
        landing_rsp == expected_rsp, landing_flags & 0x40cd5 & ~0x10000, mxcsr, control, sigismember(&now, SIGUSR2), at, stack.ss_flags));
    _exit(3);
}
static void on_segv(int sig, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    const greg_t *regs = uc->uc_mcontext.gregs;
    char line[400], *here = line;
    sigset_t now;
    uint64_t selectors = regs[REG_CSGSFS];
    sigprocmask(SIG_BLOCK, 0, &now);
    int on = 0;
    while (on < 3 && !(here >= (char *)stacks[on] && here < (char *)stacks[on] + 65536)) on++;
    const char *rip = regs[REG_RIP] == (greg_t)landed ? "landed" : regs[REG_RIP] == (greg_t)behind_call ? "behind" : "elsewhere";
    int faults = (selectors & 0xffff) != 0x33 || selectors >> 48 != 0x2b;
    say(line, snprintf(line, sizeof line, "  segv code %d addr %p rip %s rsp right %d rax %llx rbx %llx cs %lx ss %lx trap %lld err %llx flags %llx mxcsr %x control %x usr2 %d %d on %d altstack in frame %d\n",
        info->si_code, info->si_addr, rip, regs[REG_RSP] == (greg_t)expected_rsp, regs[REG_RAX], regs[REG_RBX], selectors & 0xffff, selectors >> 48,
        faults ? regs[REG_TRAPNO] : 0, faults ? regs[REG_ERR] : 0, regs[REG_EFL] & 0xcd5 & -(regs[REG_RIP] == (greg_t)landed), uc->uc_mcontext.fpregs->mxcsr, uc->uc_mcontext.fpregs->cwd,
        sigismember(&uc->uc_sigmask, SIGUSR2), sigismember(&now, SIGUSR2), on, uc->uc_stack.ss_sp == stacks[1]));
    _exit(4);
}
static void go(void *frame) {
    uint32_t mxcsr = 0x7f80;
    uint16_t control = 0x27f;
    asm volatile("ldmxcsr %1; fldcw %2; mov $0xb0b, %%ebx; lea 8(%0), %%rsp; mov $15, %%eax; syscall; behind_call: hlt" :: "r"(frame), "m"(mxcsr), "m"(control) : "rbx", "memory");
}
static struct frame *f;
static struct xstate *x;
static void put_at(unsigned char *at) { f = memcpy(at, f, sizeof *f); }
static void state_at(unsigned char *at) { x = f->uc.fpregs = memmove(at, x, state_size); }
static int prepare(int which) {
    static unsigned char *const wild = (unsigned char *)0x4141414141414141;
    unsigned char *page = arena + 0x8000;
    switch (which) {
    case 0: break;
    case 1: memset(f, 0, sizeof *f); expected_rsp = 0; break;
    case 2: munmap(page, 4096); f = (void *)(page + 64); break;
    case 3: mprotect(page, 4096, PROT_NONE); f = (void *)(page + 64); break;
    case 4: f = (void *)wild; break;
    case 5: f = (void *)-65536; break;
    case 6: put_at(page - 256); mprotect(page, 4096, PROT_NONE); break;
    case 7: put_at(page - 312); mprotect(page, 4096, PROT_NONE); break;   // information cannot be read
    case 8: put_at(page - 8); mprotect(page - 4096, 4096, PROT_NONE); break;   // return address cannot be read
    case 9: f->uc.fpregs = (void *)wild; break;
    case 10: f->uc.fpregs = (void *)4096; break;
    case 11: f->uc.fpregs = (void *)-65536; break;
    case 12: state_at((unsigned char *)x + 16); break;
    case 13: state_at((unsigned char *)x + 1); break;
    case 14: f->uc.fpregs = 0; break;
    case 15: state_at(page); mprotect(page, 4096, PROT_NONE); break;
    case 16: state_at(page - 576); mprotect(page, 4096, PROT_NONE); break;
    case 17: state_at(page); mprotect(page, 16384, PROT_READ); break;
    case 18: x->legacy.mxcsr = -1; break;
    case 19: x->bv |= 1ull << 63; break;
    case 20: x->bv |= 1ull << 62; break;
    case 21: x->comp = 1ull << 63; break;
    case 22: x->header[0] = 1; break;
    case 23: sw_of(x)->magic1++; break;
    case 24: ++*(uint32_t *)((char *)x + sw_of(x)->xstate_size); break;
    case 25: sw_of(x)->magic1 = 0; state_at((unsigned char *)x + 16); break;
    case 26: sw_of(x)->magic1 = 0; state_at((unsigned char *)x + 8); break;
    case 27: sw_of(x)->magic1 = 0; x->legacy.mxcsr = 1 << 20; break;
    case 28: sw_of(x)->xfeatures = 0; break;
    case 29: sw_of(x)->xfeatures = -1; break;
    case 30: memset(x, 0, state_size); break;
    case 31: memset(x, 0xff, state_size); break;
    case 32: f->uc.gregs[REG_CSGSFS] &= ~0xffffll; break;
    case 33: f->uc.gregs[REG_CSGSFS] ^= 0x33 ^ 0x10; break;
    case 34: f->uc.gregs[REG_CSGSFS] ^= 0x33 ^ 0x2b; break;
    case 35: f->uc.gregs[REG_CSGSFS] |= 0xffff; break;
    case 36: f->uc.gregs[REG_CSGSFS] ^= 0x33 ^ 0x30; break;
    case 37: f->uc.gregs[REG_CSGSFS] ^= 0x33 ^ 0x07; break;
    case 38: f->uc.gregs[REG_CSGSFS] &= ~(0xffffll << 48); break;
    case 39: f->uc.gregs[REG_CSGSFS] &= ~(0xffffll << 48); f->uc.flags &= ~4; break;
    case 40: f->uc.gregs[REG_CSGSFS] ^= (0x2bll ^ 0x33) << 48; break;
    case 41: f->uc.gregs[REG_CSGSFS] ^= (0x2bll ^ 0x10) << 48; break;
    case 42: f->uc.gregs[REG_CSGSFS] |= 0xffffll << 48; break;
    case 43: f->uc.gregs[REG_CSGSFS] |= 0xffff; f->uc.fpregs = 0; break;
    case 44: f->uc.gregs[REG_RIP] = (greg_t)wild; break;
    case 45: f->uc.gregs[REG_RSP] = expected_rsp = (greg_t)wild; break;
    case 46: f->uc.gregs[REG_RSP] = expected_rsp = (greg_t)wild; f->uc.fpregs = (void *)4096; break;
    case 47: f->uc.gregs[REG_EFL] = ~0x100ll; break;
    case 48: f->uc.gregs[REG_EFL] = ~0x40100ll; f->uc.fpregs = (void *)4096; break;
    case 49: f->uc.mask = -1; f->uc.fpregs = (void *)4096; break;
    case 50: f->uc.mask |= 1 << (SIGUSR2 - 1); f->uc.fpregs = (void *)4096; break;
    case 51: f->uc.mask |= 1 << (SIGUSR2 - 1); f->uc.gregs[REG_CSGSFS] |= 0xffff; break;
    case 52: f->uc.stack = (stack_t){.ss_sp = stacks[2], .ss_size = 65536}; f->uc.fpregs = (void *)4096; break;
    case 53: f->uc.stack = (stack_t){.ss_sp = stacks[2], .ss_size = 65536}; break;
    case 54: f->uc.stack = (stack_t){.ss_sp = stacks[2], .ss_size = 64}; break;
    case 55: f->uc.stack = (stack_t){.ss_sp = stacks[2], .ss_size = 65536, .ss_flags = 77}; break;
    case 56: f->uc.stack = (stack_t){.ss_sp = stacks[2], .ss_size = 65536, .ss_flags = 1u << 31}; break;
    case 57: f->uc.stack = (stack_t){.ss_flags = SS_DISABLE}; break;
    case 58: put_at(stacks[1] + 32768); f->uc.stack = (stack_t){.ss_sp = stacks[2], .ss_size = 65536}; break;   // on the stack that it replaces
    case 59: f->uc.fpregs = (void *)4096; return 0;
    case 60: f->uc.fpregs = (void *)4096; return SEGV_ON_STACK | SEGV_IGNORED;
    case 61: f->uc.gregs[REG_CSGSFS] |= 0xffff; return SEGV_ON_STACK | SEGV_DEFAULT;
    case 62: f->uc.stack = (stack_t){.ss_sp = stacks[2], .ss_size = 65536, .ss_flags = SS_ONSTACK}; break;
    default: _exit(8);
    }
    return SEGV_ON_STACK;
}
static void run(int which) {
    struct sigaction action = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
    stack_t stack = {.ss_sp = stacks[1], .ss_size = 65536};
    sigaltstack(&stack, 0);
    f = memcpy(arena + 0x4000 - 8, &saved, sizeof saved);
    x = memcpy(arena + 0x10000, saved_state, state_size);
    f->uc.fpregs = x;
    f->uc.stack = stack;
    f->uc.mask = 0;
    f->uc.gregs[REG_RIP] = (greg_t)landed;
    f->uc.gregs[REG_RSP] = expected_rsp = (uint64_t)stacks[0] + 32768;
    f->uc.gregs[REG_RBX] = 0xf00d;
    f->uc.gregs[REG_RAX] = 0xbeef;
    f->uc.gregs[REG_EFL] = 0x203;
    x->legacy.mxcsr = 0x3f80;
    landing_stack = (uint64_t)stacks[0] + 65536 - 64;
    int how = prepare(which);
    if (how & SEGV_ON_STACK) action.sa_flags |= SA_ONSTACK;
    sigaction(SIGSEGV, &action, 0);
    if (how & SEGV_IGNORED) signal(SIGSEGV, SIG_IGN);
    if (how & SEGV_DEFAULT) signal(SIGSEGV, SIG_DFL);
    if (which > 1 && which < 6) expected_rsp = (uint64_t)f + 8;
    if (which == 6) expected_rsp = (uint64_t)f + 8;
    go(f);
}
int main(void) {
    struct rlimit core = {0, 0};
    setrlimit(RLIMIT_CORE, &core);
    unsigned char *room = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 3; i++) stacks[i] = room + (i << 17);
    arena = room + (512 << 10);
    struct sigaction action = {.sa_sigaction = capture, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    if (state_size > sizeof saved_state - 64) return 1;
    for (int which = 0; which < 63; which++) {
        printf("%d\n", which);
        fflush(stdout);
        if (!fork()) run(which);
        int status;
        wait(&status);
        printf("  exit %d signal %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    return 0;
}
