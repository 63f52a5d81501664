// Under a storm of timer signals every system call happens exactly once, with
// and without SA_RESTART: bytes through a pipe, an eventfd's sum, a counter of
// records, positions of a file.
// build: cc -O1
// run: nondeterministic-counts
// run: timeout 40
// run: no-oracle it takes more than 400,000 steps, and no argument shortens it
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int got;
static void handler(int sig) { got++; }
int main(void) {
    for (int restart = 0; restart < 2; restart++) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = restart ? SA_RESTART : 0};
        sigaction(SIGALRM, &action, 0);
        int ends[2], count = eventfd(0, EFD_NONBLOCK), file = memfd_create("file", 0);
        pipe(ends);
        pid_t pid = fork();
        if (!pid) {
            close(ends[1]);
            unsigned char text[777];
            unsigned sum = 0, n;
            while ((n = read(ends[0], text, sizeof text))) for (unsigned i = 0; i < n; i++) sum = sum * 31 + text[i];
            printf("sum %08x\n", sum);
            fflush(stdout);
            _exit(0);
        }
        close(ends[0]);
        struct itimerval timer = {{0, 150}, {0, 150}};
        setitimer(ITIMER_REAL, &timer, 0);
        unsigned char block[500];
        int eintr = 0, records = 0;
        for (int i = 0; i < 2000; i++) {
            memset(block, i, sizeof block);
            for (unsigned done = 0; done < sizeof block;) { int n = write(ends[1], block + done, sizeof block - done); if (n < 0) eintr++; else done += n; }
            unsigned long one = 1;
            if (write(count, &one, 8) != 8) printf("eventfd %s\n", strerrorname_np(errno));
            if (write(file, block, 10) != 10) printf("file %s\n", strerrorname_np(errno));
            records++;
        }
        timer = (struct itimerval){{0, 0}, {0, 0}};
        setitimer(ITIMER_REAL, &timer, 0);
        unsigned long total = 0;
        read(count, &total, 8);
        printf("restart %d eventfd %lu file %ld signals %d interrupted %s\n", restart, total, (long)lseek(file, 0, SEEK_CUR), got > 5, restart && eintr ? "wrongly" : "-");
        fflush(stdout);
        close(ends[1]);
        while (waitpid(pid, 0, 0) < 0) ;
    }
    return 0;
}
