// A program unwinds its own stack, out of a handler and through the signal
// frame, with its unwind tables: it finds its own functions in order.
// build: cc -O1 -fno-optimize-sibling-calls -fasynchronous-unwind-tables -rdynamic
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <unwind.h>
static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *arg) {
    int before = 0;
    unsigned long pc = _Unwind_GetIPInfo(context, &before);
    Dl_info info = {0};
    if (dladdr((void *)(pc - !before), &info) && info.dli_sname && strstr(info.dli_fname, "backtrace")) printf(" %s%s", info.dli_sname, before ? "*" : "");
    return _URC_NO_REASON;
}
void handler(int sig) { printf("%d:", sig); _Unwind_Backtrace(frame, 0); puts(""); }
__attribute__((noinline)) int inner(int how) {
    if (how == 0) raise(SIGUSR1);
    if (how == 1) *(volatile int *)8 = 1;
    return how + 1;
}
__attribute__((noinline)) int middle(int how) { return inner(how) * 3; }
__attribute__((noinline)) int outer(int how) { return middle(how) + 1; }
#include <setjmp.h>
static sigjmp_buf back;
void fault(int sig) { handler(sig); siglongjmp(back, 1); }
int main(void) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, 0);
    action.sa_handler = fault;
    sigaction(SIGSEGV, &action, 0);
    for (int i = 0; i < 2; i++) {
        printf("%d\n", outer(0));
        if (!sigsetjmp(back, 1)) outer(1);
    }
    printf("straight:");
    _Unwind_Backtrace(frame, 0);
    puts("");
    return 0;
}
