// fnstenv shows the address of the last x87 instruction: the program's own.
// build: cc -O1
#include <stdio.h>
int main(void) {
    struct { unsigned words[7]; } env;
    unsigned long at;
    asm volatile("lea 1f(%%rip), %1\n1: fldpi\n\tjmp 2f\n2: fnstenv %0\n\tfninit" : "=m"(env), "=r"(at));
    // Some CPUs store the pointer only with an unmasked exception pending: 0.
    printf("%d\n", env.words[3] == (unsigned)at || env.words[3] == 0);
    return 0;
}
