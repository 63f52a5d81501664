// Code changed through /proc/self/mem and process_vm_writev is the code run.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
__attribute__((noinline, aligned(64))) static int value(void) { asm volatile(""); return 0x11; }
int main(void) {
    unsigned char *p = (unsigned char *)value;
    int at = 0;
    while (p[at] != 0xb8) at++;
    printf("%x\n", value());
    int fd = open("/proc/self/mem", O_RDWR);
    unsigned char byte = 0x22;
    printf("%zd ", pwrite(fd, &byte, 1, (off_t)(p + at + 1)));
    printf("%x\n", value());
    byte = 0x33;
    unsigned char *page = (unsigned char *)((unsigned long)p & ~4095ul);
    mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
    struct iovec here = {&byte, 1}, there = {p + at + 1, 1};
    printf("%zd ", process_vm_writev(getpid(), &here, 1, &there, 1, 0));
    printf("%x\n", value());
    p[at + 1] = 0x44;
    printf("%x\n", value());
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    printf("%x\n", value());
    return 0;
}
