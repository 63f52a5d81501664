// personality(READ_IMPLIES_EXEC): what is mapped or protected from then on and can be read can be
// executed; it is a thread's own, is inherited by fork and threads, and an exec clears it.
// build: cc -O1 -pthread
// run: no-oracle it executes itself and has threads
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>
enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE };
static sigjmp_buf back;
static void handler(int sig, siginfo_t *info, void *context) { siglongjmp(back, info->si_code); }
static int run(char *p) {
    int code = sigsetjmp(back, 1);
    if (code) return -code;
    return ((int (*)(void))(void *)p)();
}
// mov $value, %eax; ret
static void put(char *p, int value) { p[0] = (char)0xb8; memcpy(p + 1, &value, 4); p[5] = (char)0xc3; }
static char *map(int prot) { return mmap(0, PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static void *thread(void *unused) {
    char *code = map(RW);
    put(code, 9);
    printf("thread %x", personality(0xffffffff));
    printf(" %d", run(code));
    personality(0);
    code = map(RW);
    put(code, 9);
    printf(" %d\n", run(code));
    return unused;
}

int main(int argc, char **argv) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    char *before = map(RW);
    put(before, 1);
    printf("personality %x, not executable %d\n", personality(0xffffffff), run(before));
    if (argc > 1) return 0;
    printf("was %x\n", personality(READ_IMPLIES_EXEC));
    printf("is %x\n", personality(0xffffffff));
    printf("mapped before %d", run(before));
    mprotect(before, PAGE, PROT_READ);
    printf(", protected since %d", run(before));
    mprotect(before, PAGE, RW);
    printf(", again %d\n", run(before));
    char *code = map(RW);
    for (int i = 0; i < 3; i++) { put(code, 2 + i); printf("mapped since %d\n", run(code)); }
    mprotect(code, PAGE, PROT_NONE);
    printf("not readable %d\n", run(code));
    int id = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0700);
    char *attached = shmat(id, 0, 0);
    shmctl(id, IPC_RMID, 0);
    for (int i = 0; i < 2; i++) { put(attached, 5 + i); printf("attached %d\n", run(attached)); }
    char *heap = sbrk(2 * PAGE);
    put(heap, 8);
    printf("heap %d\n", run(heap));
    pthread_t other;
    pthread_create(&other, 0, thread, 0);
    pthread_join(other, 0);
    printf("here still %x\n", personality(0xffffffff));
    fflush(stdout);
    if (!fork()) {
        code = map(RW);
        put(code, 7);
        printf("child %x %d\n", personality(0xffffffff), run(code));
        fflush(stdout);
        execl(argv[0], argv[0], "again", (char *)0);
        _exit(1);
    }
    wait(0);
    personality(0);
    code = map(RW);
    put(code, 7);
    printf("off %x %d\n", personality(0xffffffff), run(code));
    return 0;
}
