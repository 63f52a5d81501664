// PT_GNU_STACK asks for an executable stack: code on it runs.
// build: cc -O1 -z execstack
// run: oracle own-functions
#include <stdio.h>
#include <string.h>
int main(void) {
    unsigned char code[16] = {0xb8, 42, 0, 0, 0, 0xc3};
    int (*f)(void) = (int (*)(void))(void *)code;
    asm volatile("" : : "r"(code) : "memory");
    printf("%d\n", f());
    code[1] = 43;
    asm volatile("" : : "r"(code) : "memory");
    printf("%d\n", f());
    memcpy(code, "\x8d\x47\x01\xc3", 4);
    asm volatile("" : : "r"(code) : "memory");
    printf("%d\n", ((int (*)(int))(void *)code)(7));
    return 0;
}
