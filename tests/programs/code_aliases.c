// Shared code under several addresses: made by mremap of length 0, by mprotect of a shared mapping,
// moved by mremap, pages exchanged by remap_file_pages, written by a child. What was written is what runs.
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
enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE, RX = PROT_READ | PROT_EXEC, RWX = RW | PROT_EXEC };
static sigjmp_buf back;
static void handler(int sig, siginfo_t *info, void *context) { siglongjmp(back, info->si_code); }
static int run(char *p) {
    int code = sigsetjmp(back, 1);
    if (code) return -code;
    return ((int (*)(void))(void *)p)();
}
// mov $value, %eax; ret
static void put(char *p, int value) { p[0] = (char)0xb8; memcpy(p + 1, &value, 4); p[5] = (char)0xc3; }

static void rounds(const char *what, char *write, char *code, int value) {
    printf("%s", what);
    for (int i = 0; i < 3; i++) { put(write, value + i); printf(" %d", run(code)); }
    puts("");
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    char *first = mmap(0, 2 * PAGE, RWX, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    rounds("anonymous", first, first, 10);
    char *second = mremap(first, 0, 2 * PAGE, MREMAP_MAYMOVE);
    rounds("first to second", first, second, 20);
    rounds("second to first", second, first, 30);
    rounds("second page", first + PAGE, second + PAGE, 40);
    char *third = mremap(second, 0, PAGE, MREMAP_MAYMOVE);
    mprotect(first, PAGE, RW);
    rounds("alias of the alias", first, third, 50);
    printf("no code %d\n", run(first));
    munmap(second, 2 * PAGE);
    printf("gone %d, not gone %d\n", run(second), run(third));

    char *data = mmap(0, 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0), *code = mremap(data, 0, 2 * PAGE, MREMAP_MAYMOVE);
    printf("not executable %d\n", run(code));
    mprotect(code, 2 * PAGE, RX);
    rounds("by mprotect", data, code, 60);
    fflush(stdout);
    if (!fork()) { put(data, 77); _exit(0); }
    wait(0);
    printf("by a child %d\n", run(code));

    int fd = memfd_create("code", 0);
    ftruncate(fd, 4 * PAGE);
    char *writable = mmap(0, 4 * PAGE, RW, MAP_SHARED_VALIDATE, fd, 0), *runs = mmap(0, 4 * PAGE, PROT_READ, MAP_SHARED_VALIDATE, fd, 0);
    mprotect(runs, 4 * PAGE, RX);
    rounds("by mprotect of a file", writable, runs, 80);
    runs = mremap(runs, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, mmap(0, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    rounds("moved", writable, runs, 90);
    put(writable + 2 * PAGE, 100);
    put(writable + 3 * PAGE, 101);
    printf("pages %d %d", run(runs + 2 * PAGE), run(runs + 3 * PAGE));
    int both = remap_file_pages(runs + 2 * PAGE, PAGE, 0, 3, 0) | remap_file_pages(runs + 3 * PAGE, PAGE, 0, 2, 0);
    printf(", exchanged (%d) %d %d\n", both, run(runs + 2 * PAGE), run(runs + 3 * PAGE));
    rounds("behind the exchange", writable + 3 * PAGE, runs + 2 * PAGE, 110);

    char *own = mmap(0, PAGE, RWX, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    put(own, 120);
    int before = run(own);
    char *moved = mremap(own, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);
    printf("left behind %d %d", before, run(moved));
    put(own, 121);
    printf(" %d %d\n", run(own), run(moved));

    int id = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0700);
    char *attached = shmat(id, 0, 0), *executable = shmat(id, 0, 0);
    shmctl(id, IPC_RMID, 0);
    printf("attached %d", run(executable));
    mprotect(executable, PAGE, RX);
    rounds(", by mprotect", attached, executable, 130);
    return 0;
}
