// A signal interrupts waiting for completions in io_uring_enter: EINTR, and
// the completion is there later. Where there is no io_uring it is said so.
// build: cc -O1
// run: nondeterministic-counts
// run: oracle own-functions
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
static volatile int got;
static void handler(int sig) { got++; }
int main(void) {
    struct io_uring_params p;
    memset(&p, 0, sizeof p);
    int ring = syscall(SYS_io_uring_setup, 8, &p);
    if (ring < 0) { printf("no io_uring\n"); return 0; }
    char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    char *cq = mmap(0, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
    struct io_uring_sqe *sqes = mmap(0, p.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    int ends[2];
    pipe(ends);
    static char text[16];
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, 0);
    for (unsigned i = 0; i < 3; i++) {
        memset(&sqes[0], 0, sizeof *sqes);
        sqes[0].opcode = IORING_OP_READ;
        sqes[0].fd = ends[0];
        sqes[0].addr = (long)text;
        sqes[0].len = 5;
        sqes[0].off = -1;
        sqes[0].user_data = 70 + i;
        unsigned *tail = (unsigned *)(sq + p.sq_off.tail), mask = *(unsigned *)(sq + p.sq_off.ring_mask);
        ((unsigned *)(sq + p.sq_off.array))[*tail & mask] = 0;
        __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
        printf("submitted %ld\n", syscall(SYS_io_uring_enter, ring, 1, 0, 0, 0, 0));
        struct itimerval timer = {{0, 0}, {0, 20000}};
        setitimer(ITIMER_REAL, &timer, 0);
        long r = syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, 0, 0L);
        printf("waited %ld %s signals %d\n", r, r < 0 ? strerrorname_np(errno) : "-", got);
        write(ends[1], "hello", 5);
        r = syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, 0, 0L);
        unsigned *head = (unsigned *)(cq + p.cq_off.head), cmask = *(unsigned *)(cq + p.cq_off.ring_mask);
        struct io_uring_cqe *c = (struct io_uring_cqe *)(cq + p.cq_off.cqes) + (*head & cmask);
        printf("completed %ld result %d data %llu text %s\n", r, c->res, (unsigned long long)c->user_data, text);
        __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    }
    return 0;
}
