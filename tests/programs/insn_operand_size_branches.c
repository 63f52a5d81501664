// Near branches with an operand size prefix: Intel ignores it, AMD branches to 16 bits
// of the address and pushes and pops two bytes.
// build: cc -O1
// run: no-oracle its handler goes on where no function returns to
#include "snippets.h"
int main(void) {
    snippets();
    for (int round = 0; round < 2; round++) {
        SNIPPET("jmp short", 0x66, 0xeb, 0x02, 0x90, 0x90);
        SNIPPET("jmp", 0x66, 0xe9, 2, 0, 0, 0, 0x90, 0x90);
        SNIPPET("je short", 0x31, 0xc0, 0x66, 0x74, 0x02, 0x90, 0x90);
        SNIPPET("jne short, not taken", 0x31, 0xc0, 0x66, 0x75, 0x02, 0x90, 0x90);
        SNIPPET("je", 0x31, 0xc0, 0x66, 0x0f, 0x84, 2, 0, 0, 0, 0x90, 0x90);
        SNIPPET("jne, not taken", 0x31, 0xc0, 0x66, 0x0f, 0x85, 2, 0, 0, 0, 0x90, 0x90);
        SNIPPET("loop", 0x66, 0xe2, 0x02, 0x90, 0x90);
        SNIPPET("jrcxz, not taken", 0x66, 0xe3, 0x02, 0x90, 0x90);
        SNIPPET("jrcxz", 0x31, 0xc9, 0x66, 0xe3, 0x02, 0x90, 0x90);
        SNIPPET("call", 0x66, 0xe8, 2, 0, 0, 0, 0x90, 0x90);
        SNIPPET("call rex.w", 0x66, 0x48, 0xe8, 2, 0, 0, 0, 0x90, 0x90);
        SNIPPET("jmp reg", 0x66, 0xff, 0xe0);
        SNIPPET("jmp reg rex.w", 0x66, 0x48, 0xff, 0xe0);
        SNIPPET("call reg", 0x66, 0xff, 0xd0);
        SNIPPET("call reg rex.w", 0x66, 0x48, 0xff, 0xd0);
        SNIPPET("jmp mem", 0x66, 0xff, 0x20);
        SNIPPET("call mem", 0x66, 0xff, 0x10);
        // The word behind it is its target on both: with other bytes there Intel's processors would go to an address that is not
        // canonical, which faults at another place than translated code has it (docs/limits.md).
        SNIPPET("call rip-relative", 0x66, 0xff, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        SNIPPET("ret", 0x66, 0xc3);
        SNIPPET("ret 6", 0x66, 0xc2, 6, 0);
        SNIPPET("push and ret", 0x50, 0x66, 0xc3);
    }
    return 0;
}
