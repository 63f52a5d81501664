// A fast timer while new code is made, run and thrown away all the time, in a
// loop of indirect calls and in deep recursion: results stay exact.
// build: cc -O1
// run: nondeterministic-counts
// run: timeout 60
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
static volatile int got;
static void handler(int sig) { got++; }
static int down(int n) { return n ? down(n - 1) + (n & 3) : 0; }
int main(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval timer = {{0, 120}, {0, 120}};
    setitimer(ITIMER_REAL, &timer, 0);
    unsigned sum = 0;
    for (int round = 0; round < 60; round++) {
        unsigned char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int i = 0; i < 64; i++) {
            unsigned char code[] = {0x8d, 0x87, 0, 0, 0, 0, 0xff, 0xc8, 0x75, 0xfc, 0x8d, 0x87, 0, 0, 0, 0, 0xc3};
            int loops = 20 + i, value = round * 100 + i;
            code[0] = 0xb8;
            memcpy(code + 1, &loops, 4);
            code[5] = 0x90;
            memcpy(code + 12, &value, 4);
            memcpy(page + i * 128, code, sizeof code);
        }
        mprotect(page, 8192, PROT_READ | PROT_EXEC);
        for (int i = 0; i < 64; i++) sum = sum * 31 + ((int (*)(int))(page + i * 128))(i);
        sum += down(500);
        munmap(page, 8192);
    }
    while (got < 5) ;
    timer = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, 0);
    printf("%08x\n", sum);
    return 0;
}
