// Handlers nested on an alternate stack until it is full: the kernel refuses
// the frame that does not fit and kills with SIGSEGV; what lies below the stack
// is untouched. A stack that is not there kills at once.
// build: cc -O1
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int *depth;
static void nest(int sig) { ++*depth; raise(sig); }
static void once(int sig) { ++*depth; }
int main(void) {
    struct rlimit core = {0, 0};
    setrlimit(RLIMIT_CORE, &core);
    depth = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned char *room = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int how = 0; how < 5; how++) {
        *depth = 0;
        memset(room, 0xa5, 1 << 20);
        if (!fork()) {
            stack_t s = {.ss_sp = room + (512 << 10), .ss_size = 64 << 10};
            struct sigaction action = {.sa_handler = how < 2 ? nest : once, .sa_flags = SA_ONSTACK | SA_NODEFER};
            if (how == 2) s.ss_sp = (char *)mmap(0, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (how == 3) s.ss_sp = (void *)0x1000;
            if (how == 4) mprotect(s.ss_sp, s.ss_size, PROT_READ);
            sigaltstack(&s, 0);
            sigaction(SIGUSR1, &action, 0);
            if (how == 1) sigaction(SIGSEGV, &action, 0);
            raise(SIGUSR1);
            _exit(3);
        }
        int status, below = 0;
        wait(&status);
        for (int i = 0; i < 500 << 10; i++) below += room[i] != 0xa5;
        printf("%d: exit %d signal %d nested %d below %d\n", how, WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0, *depth > 5, below);
        fflush(stdout);
    }
    return 0;
}
