// Executing memory without the execute bit faults: stack, heap, data, a page
// whose bit was taken away while it was running before.
// build: cc -O1
// run: oracle
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
static sigjmp_buf back;
static volatile int code;
static char *volatile where;
static void handler(int sig, siginfo_t *info, void *context) { code = info->si_code; where = info->si_addr; siglongjmp(back, 1); }
static char data[16] = "\xc3";
static void call(const char *name, char *p) {
    if (!sigsetjmp(back, 1)) { ((void (*)(void))(void *)p)(); printf("%s ran\n", name); }
    else printf("%s faults, code %d, at it %d\n", name, code, where == p);
}
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    char local[16] = "\xc3", *heap = malloc(16), *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    heap[0] = page[0] = (char)0xc3;
    asm volatile("" : : "r"(local), "r"(heap) : "memory");
    for (int i = 0; i < 2; i++) {
        call("stack", local); call("heap", heap); call("data", data); call("page", page);
        mprotect(page, 4096, PROT_READ | PROT_WRITE); call("page", page);
        mprotect(page, 4096, PROT_NONE); call("page", page);
        mprotect(page, 4096, PROT_EXEC); call("page", page);
        mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC); call("page", page);
    }
    return 0;
}
