// The vsyscall page with pointers that cannot be written to, a stack that cannot be read,
// and addresses in it that are no entries: the signal, and what the registers are then.
// build: cc -O1
// run: no-oracle its handler goes on where no function returns to
#include "snippets.h"
static void with(const char *name, uint64_t function, uint64_t first, uint64_t second, uint64_t stack) {
    snippet_in[0] = function, snippet_in[7] = first, snippet_in[6] = second, snippet_in[4] = stack;
    printf("%s ", name);
    SNIPPET("call", 0xff, 0xd0, 0x31, 0xc0, 0x31, 0xc9, 0x45, 0x31, 0xdb);
    printf("%s ", name);
    SNIPPET("jmp", 0xff, 0xe0);
}
int main(void) {
    snippets();
    snippet_hides_trap = 1;
    const uint64_t page = 0xffffffffff600000, bad[] = {8, 0x30000000, 0x800000000000, 0xffff800000000000, 0x7fffffffeff8};
    snippet_stack[32] = CODE + 0x100;
    for (int i = 0; i < 5; i++) {
        with("gettimeofday", page, bad[i], 0, STACK);
        with("gettimeofday zone", page, 0, bad[i], STACK);
        with("time", page + 0x400, bad[i], 0, STACK);
        with("getcpu", page + 0x800, bad[i], 0, STACK);
        with("getcpu node", page + 0x800, 0, bad[i], STACK);
        if (bad[i] != CODE) with("no stack", page + 0x400, 0, 0, bad[i]);
    }
    with("behind the entry", page + 1, 0, 0, STACK);
    with("behind the last", page + 0xc00, 0, 0, STACK);
    with("end", page + 0xfff, 0, 0, STACK);
    with("behind the page", page + 0x1000, 0, 0, STACK);
    with("before the page", page - 1, 0, 0, STACK);
    return 0;
}
