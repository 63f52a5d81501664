// All sixteen conditions, short and near, against all flag combinations.
// build: cc -O1
// run: oracle own-functions
#include <stdio.h>
#define J(cc) ".byte 0x66,0x90\n pushq %1\n popf\n mov $0, %%eax\n j" #cc " 1f\n inc %%eax\n1: j" #cc " 2f\n add $2, %%eax\n .fill 200,1,0x90\n2: shl $2, %0\n or %%rax, %0\n"
int main(void) {
    unsigned long h = 0;
    for (unsigned long bits = 0; bits < 32; bits++) {
        unsigned long flags = 0x202 | (bits & 1) | (bits & 2) << 1 | (bits & 4) << 4 | (bits & 8) << 4 | (bits & 16) << 7, r = 0;
        asm volatile(J(o) J(no) J(b) J(ae) J(e) J(ne) J(be) J(a) J(s) J(ns) J(p) J(np) J(l) J(ge) J(le) J(g) : "+r"(r) : "r"(flags) : "rax", "cc", "memory");
        printf("%lx %lx\n", flags, r);
        h = h * 31 + r;
    }
    return 0;
}
