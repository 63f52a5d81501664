// Code, paths and structures in memory that a thread of the program serves by userfaultfd: nobody
// else waits while a page is awaited, and no page is asked for that the program does not touch.
// build: cc -O1 -pthread
// run: no-oracle pages are served by a thread
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 24, FIRST_DATA = 12 };
static unsigned char *area, source[PAGES][PAGE];
static int faults, order[PAGES * 2], asked;

// Fresh code for the thread that serves, so that it has to be translated while another waits.
#define STEP(n) __attribute__((noinline)) static int step##n(int x) { return __builtin_popcount(x * (n + 3)) + n; }
STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
static int (*const steps[])(int) = {step0, step1, step2, step3, step4, step5, step6, step7};

static void *serve(void *result) {
    struct uffd_msg message;
    while (read(faults, &message, sizeof message) == sizeof message) {
        if (message.event != UFFD_EVENT_PAGEFAULT) continue;
        unsigned char *at = (unsigned char *)(message.arg.pagefault.address & ~(PAGE - 1ull));
        int page = (at - area) / PAGE;
        *(int *)result += steps[page % 8](page);
        struct stat about;
        stat("/proc/self/exe", &about);
        order[asked++] = page;
        struct uffdio_copy copy = {.dst = (unsigned long)at, .src = (unsigned long)source[page], .len = PAGE};
        ioctl(faults, UFFDIO_COPY, &copy);
        if (page == PAGES - 1) return 0;
    }
    return 0;
}

static void put(int page, int at, const void *code, int len) { memcpy(source[page] + at, code, len); }
static int call(int page, int at) { return ((int (*)(void))(area + page * PAGE + at))(); }

// mov eax, value; ret
static void constant(int page, int at, int value) {
    unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3};
    memcpy(code + 1, &value, 4);
    put(page, at, code, sizeof code);
}

static void jump(int page, int at, int to_page, int to, int is_call) {
    int distance = (to_page - page) * PAGE + to - at - 5;
    source[page][at] = is_call ? 0xe8 : 0xe9;
    memcpy(source[page] + at + 1, &distance, 4);
}

static void write_code(void) {
    constant(0, 0, 1);
    jump(1, 0, 2, 16, 0); // A jump to another page.
    constant(2, 16, 2);
    jump(3, 0, 4, 0, 1); // A call of another page, and what follows it.
    put(3, 5, (unsigned char[]){0xff, 0xc0, 0xc3}, 3); // inc eax; ret
    constant(4, 0, 3);
    put(5, PAGE - 8, (unsigned char[]){0x31, 0xc0, 0x85, 0xc0, 0x74, 0x02, 0x90, 0x90}, 8);
    // `je` to page 6, taken; what follows it goes there, too.
    constant(6, 0, 5);
    put(7, PAGE - 3, (unsigned char[]){0xb8, 6, 0}, 3); // An instruction over the border.
    put(8, 0, (unsigned char[]){0, 0, 0xc3}, 3);
    put(9, PAGE - 4, (unsigned char[]){0x31, 0xc0, 0xc3, 0x90}, 4); // Page 10 is not run.
    constant(10, 0, 9);
    put(11, PAGE - 6, (unsigned char[]){0x31, 0xc0, 0x85, 0xc0, 0x74, 0xf2}, 6); // `je` back; 12 never follows.
    constant(11, PAGE - 14, 7);
}

static void data_calls(void) {
    strcpy((char *)source[FIRST_DATA], "/proc/self/exe");
    strcpy((char *)source[FIRST_DATA + 1] + 8, "/dev/null");
    unsigned char *data = area + FIRST_DATA * PAGE;
    struct stat about;
    printf("stat %d\n", stat((char *)data, &about));
    printf("open %d\n", close(open((char *)data + PAGE + 8, O_RDWR)));
    // A link's name into an absent page.
    printf("link %d\n", readlink("/proc/self/exe", (char *)data + 2 * PAGE, 10) > 0);
    struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } raw = {.handler = (void *)SIG_IGN};
    memcpy(source[FIRST_DATA + 3], &raw, sizeof raw);
    printf("sigaction %ld\n", syscall(SYS_rt_sigaction, SIGUSR1, data + 3 * PAGE, data + 4 * PAGE, 8));
    printf("sigprocmask %ld\n", syscall(SYS_rt_sigprocmask, SIG_BLOCK, data + 5 * PAGE, 0, 8));
    // Vectors: read into a page of code, which may be guarded.
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return;
    unsigned char code[] = {0xb8, 77, 0, 0, 0, 0xc3};
    struct iovec vector = {area, sizeof code};
    memcpy(source[FIRST_DATA + 6], &vector, sizeof vector);
    printf("write %zd\n", write(ends[1], code, sizeof code));
    printf("readv %zd\n", readv(ends[0], (struct iovec *)(data + 6 * PAGE), 1));
    printf("new code %d\n", call(0, 0));
    vector.iov_base = area + 4 * PAGE;
    struct msghdr message = {.msg_iov = (struct iovec *)(data + 8 * PAGE), .msg_iovlen = 1};
    memcpy(source[FIRST_DATA + 7], &message, sizeof message);
    memcpy(source[FIRST_DATA + 8], &vector, sizeof vector);
    printf("write %zd\n", write(ends[1], code, sizeof code));
    printf("recvmsg %d\n", (int)recvmsg(ends[0], (struct msghdr *)(data + 7 * PAGE), 0));
    printf("stat %d\n", stat("/proc/self/exe", (struct stat *)(data + 9 * PAGE)));
}

int main(void) {
    int served = 0;
    faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faults < 0) {
        puts("userfaultfd is not permitted");
        return 0;
    }
    struct uffdio_api api = {.api = UFFD_API};
    ioctl(faults, UFFDIO_API, &api);
    area = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    write_code();
    struct uffdio_register range = {.range = {(unsigned long)area, PAGES * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    printf("registered %d\n", ioctl(faults, UFFDIO_REGISTER, &range));
    fflush(stdout);
    pthread_t server;
    pthread_create(&server, 0, serve, &served);
    printf("%d\n", call(0, 0));
    printf("%d\n", call(1, 0));
    printf("%d\n", call(3, 0));
    printf("%d\n", call(5, PAGE - 8));
    printf("%d\n", call(7, PAGE - 3));
    printf("%d\n", call(9, PAGE - 4));
    printf("%d\n", call(11, PAGE - 6));
    data_calls();
    area[(PAGES - 1) * PAGE] = 1;
    pthread_join(server, 0);
    for (int i = 0; i < asked; i++) printf("%d ", order[i]);
    printf("asked, %d\n", served);
    return 0;
}
