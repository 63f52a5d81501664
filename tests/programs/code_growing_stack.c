// Code on a stack that was made executable down to its end (PROT_GROWSDOWN): above and below where it
// was asked for, and where the stack grows to later; taken away in the same way. A mapping below is none of it.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE, RWX = RW | PROT_EXEC };
static sigjmp_buf back;
static char alternate[65536];
static void handler(int sig, siginfo_t *info, void *context) { siglongjmp(back, info->si_code); }
static int run(volatile char *p) {
    int code = sigsetjmp(back, 1);
    if (code) return -code;
    return ((int (*)(void))(void *)p)();
}
// mov $value, %eax; ret
static void put(volatile char *p, int value) {
    char code[] = {(char)0xb8, 0, 0, 0, 0, (char)0xc3};
    memcpy(code + 1, &value, 4);
    for (int i = 0; i < 6; i++) p[i] = code[i];
}
__attribute__((noinline)) static int deeper(int depth, int value) {
    volatile char room[2 * PAGE];
    room[0] = 1;
    if (depth > 0) return deeper(depth - 1, value) + room[0] - 1;
    put(room + 64, value);
    return run(room + 64);
}
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, 0);
    sigaction(SIGSEGV, &action, 0);
    char here[64];
    char *page = (char *)((unsigned long)here & ~(PAGE - 1ul));
    printf("not executable %d\n", deeper(0, 1));
    printf("mprotect %d\n", mprotect(page, PAGE, RWX | PROT_GROWSDOWN));
    for (int i = 0; i < 3; i++) printf("%d ", deeper(0, 2 + i));
    printf("%d deeper %d\n", deeper(1, 5), deeper(30, 6));
    printf("away %d", mprotect(page, PAGE, RW | PROT_GROWSDOWN));
    printf(" %d", deeper(0, 7));
    printf(" %d\n", deeper(30, 8));

    // A mapping that grows, with another one below the gap.
    char *area = mmap(0, 1024 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(area, 1024 * PAGE);
    char *below = mmap(area, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    char *grows = mmap(area + 1020 * PAGE, 4 * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN, -1, 0);
    put(below, 20);
    put(grows, 21);
    printf("plain %d", mprotect(grows + 3 * PAGE, PAGE, RWX));
    printf(" %d", run(grows));
    printf(" grows %d", mprotect(grows + 2 * PAGE, PAGE, RWX | PROT_GROWSDOWN));
    printf(" %d", run(grows));
    put(grows + 3 * PAGE, 22);
    printf(" %d below %d\n", run(grows + 3 * PAGE), run(below));
    printf("not a stack %d both %d\n", mprotect(below, PAGE, RWX | PROT_GROWSDOWN), mprotect(grows, PAGE, RWX | PROT_GROWSDOWN | PROT_GROWSUP));
    return 0;
}
