// Code in System V shared memory: attached twice, written through one and run
// through the other; attached over code (SHM_REMAP); detached, and a jump
// there then faults; the same segment in a child.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>
static sigjmp_buf back;
static void *volatile where;
static void handler(int sig, siginfo_t *info, void *context) { where = info->si_addr; siglongjmp(back, info->si_code); }
static int run(char *p) {
    int code = sigsetjmp(back, 1);
    if (code) return -code * 10 - (where == p);
    return ((int (*)(void))(void *)p)();
}
// mov $value, %eax; ret
static void put(char *p, int value) { p[0] = (char)0xb8; memcpy(p + 1, &value, 4); p[5] = (char)0xc3; }
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    int id = shmget(IPC_PRIVATE, 8192, IPC_CREAT | 0700), status;
    char *write = shmat(id, 0, 0), *code = shmat(id, 0, SHM_EXEC | SHM_RDONLY);
    shmctl(id, IPC_RMID, 0);
    for (int i = 0; i < 3; i++) { put(write, 40 + i); printf("%d ", run(code)); }
    printf("not executable %d\n", run(write));
    fflush(stdout);
    if (!fork()) { put(write, 77); _exit(run(code)); }
    wait(&status);
    printf("child %d parent %d\n", WEXITSTATUS(status), run(code));
    char *page = mmap(0, 16384, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    put(page, 5);
    put(page + 8192, 6);
    printf("page %d %d\n", run(page), run(page + 8192));
    char *over = shmat(id, page, SHM_EXEC | SHM_REMAP);
    printf("over %d %d %d\n", over == page, run(page), run(page + 8192));
    over = shmat(id, page + 8192, SHM_REMAP);
    printf("data over code %d %d\n", over == page + 8192, run(page + 8192));
    int gone = shmdt(page), too = shmdt(code);
    printf("detached %d %d code %d %d again %d\n", gone, run(page), too, run(code), shmdt(code));
    return 0;
}
