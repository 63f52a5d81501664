// A program that is its own debugger: breakpoint, registers, memory, single steps, signals of a traced child.
// build: gcc -O1 -fno-pie -no-pie
// run: no-oracle it is a debugger itself, and a process has only one
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static long secret = 41;

__attribute__((noinline)) int traced(int n)
{
    secret += n;
    return n * 2;
}

static int child(void)
{
    int sum = traced(3) + traced(4);
    raise(SIGUSR1);
    return sum;
}

// Through the signal that it raises.
static void to_its_end(pid_t pid)
{
    int status;
    ptrace(PTRACE_CONT, pid, 0, 0);
    waitpid(pid, &status, 0);
    printf("signal %d\n", WSTOPSIG(status));
    ptrace(PTRACE_CONT, pid, 0, 0);
    waitpid(pid, &status, 0);
    printf("exit %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void debug(pid_t pid)
{
    int status;
    struct user_regs_struct regs;
    waitpid(pid, &status, 0);
    printf("stopped by %d after exec\n", WSTOPSIG(status));
    ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL);
    long at = (long)traced, word = ptrace(PTRACE_PEEKTEXT, pid, at, 0);
    ptrace(PTRACE_POKETEXT, pid, at, (word & ~0xffL) | 0xcc);
    ptrace(PTRACE_CONT, pid, 0, 0);
    waitpid(pid, &status, 0);
    ptrace(PTRACE_GETREGS, pid, 0, &regs);
    printf("signal %d, breakpoint %d, argument %lld\n", WSTOPSIG(status), regs.rip == at + 1ul, regs.rdi);
    ptrace(PTRACE_POKETEXT, pid, at, word);
    regs.rip = at;
    regs.rdi = 10;
    ptrace(PTRACE_SETREGS, pid, 0, &regs);
    ptrace(PTRACE_POKEDATA, pid, &secret, 100);
    int steps = 0;
    do {
        ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
        waitpid(pid, &status, 0);
        ptrace(PTRACE_GETREGS, pid, 0, &regs);
        steps++;
    } while (WIFSTOPPED(status) && steps < 1000 && regs.rip != (unsigned long)ptrace(PTRACE_PEEKDATA, pid, regs.rsp - 8, 0));
    printf("returned %lld after %s, secret %ld\n", regs.rax, steps < 20 ? "few steps" : "many steps",
           ptrace(PTRACE_PEEKDATA, pid, &secret, 0));
    to_its_end(pid);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, 0, _IOLBF, 0);
    if (argc > 1)
        return child();
    for (int way = 0; way < 2; way++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (way == 0)
                ptrace(PTRACE_TRACEME, 0, 0, 0);
            else
                raise(SIGSTOP);
            execv("/proc/self/exe", (char *[]){argv[0], "child", 0});
            _exit(errno);
        }
        if (way == 1) {
            // As strace does: seize the stopped child, and let it exec.
            int status;
            waitpid(pid, &status, WUNTRACED);
            ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXEC);
            kill(pid, SIGCONT);
            do {
                waitpid(pid, &status, 0);
                if (status >> 8 != (SIGTRAP | PTRACE_EVENT_EXEC << 8))
                    ptrace(PTRACE_CONT, pid, 0, 0);
            } while (status >> 8 != (SIGTRAP | PTRACE_EVENT_EXEC << 8));
            printf("seized, exec seen\n");
            to_its_end(pid);
        } else {
            debug(pid);
        }
    }
    return 0;
}
