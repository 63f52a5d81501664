// Branches to addresses of the kernel, and to the last ones before them: the fault is at the
// target, and its error code says nothing of what is there.
// build: cc -O1
// run: no-oracle its handler goes on where no function returns to
#include "snippets.h"
static void at(uint64_t target) {
    snippet_in[0] = target;
    *(uint64_t *)PATTERN(1) = target;
    snippet_stack[32] = target;
    SNIPPET("jmp reg", 0xff, 0xe0);
    SNIPPET("call reg", 0xff, 0xd0);
    SNIPPET("jmp mem", 0xff, 0x21);
    SNIPPET("call mem", 0xff, 0x11);
    SNIPPET("call mem by the stack", 0xff, 0x14, 0x24);
    SNIPPET("ret", 0xc3);
    SNIPPET("ret 16", 0xc2, 16, 0);
    SNIPPET("push, ret", 0x50, 0xc3);
    SNIPPET("pop, jmp", 0x58, 0xff, 0xe0);
}
int main(void) {
    snippets();
    for (int round = 0; round < 2; round++) {
        at(0xffff800000000000);
        at(0xffffffff81000000);
        at(0x7ffffffff000);
        at(0x7fffffffffff);
    }
    return 0;
}
