// A filter that looks at the address of the call: from one place it is allowed, from others
// it fails, for calls that the kernel makes and for calls that the engine makes.
// build: cc -O1 -fno-pie -no-pie
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
extern char behind_trusted[];
static __attribute__((noinline, noclone, noipa)) long trusted(long nr, long a, long b) {
    long r;
    asm volatile("syscall\n.globl behind_trusted\nbehind_trusted:" : "=a"(r) : "a"(nr), "D"(a), "S"(b) : "rcx", "r11", "memory");
    return r;
}
static __attribute__((noinline, noclone, noipa)) long other(long nr, long a, long b) {
    long r;
    asm volatile("syscall" : "=a"(r) : "a"(nr), "D"(a), "S"(b) : "rcx", "r11", "memory");
    return r;
}
static __attribute__((noinline, noclone, noipa)) long plain(void) {
    long r;
    asm volatile("mov $110, %%eax\nsyscall" : "=a"(r) : : "rcx", "r11", "memory");
    return r;
}
int main(void) {
    plain();
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned long)behind_trusted, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 99),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) { puts("no filters here"); return 0; }
    for (int i = 0; i < 3; i++) {
        printf("trusted %d\n", trusted(SYS_getppid, 0, 0) > 0);
        printf("other %ld\n", other(SYS_getppid, 0, 0));
        printf("plain %ld\n", plain());
        void *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        printf("trusted %ld\n", trusted(SYS_munmap, (long)page, 4096));
        printf("other %ld\n", other(SYS_munmap, (long)page, 4096));
    }
    return 0;
}
