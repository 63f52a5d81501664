// RLIMIT_AS of two gigabytes: a program starts, allocates a good part, sees
// ENOMEM where the rest does not fit, goes on, and starts another.
// build: cc -O1
// run: oracle own-functions
// run: no-counts how much it can map is another number
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static unsigned fresh(unsigned x) { for (int i = 0; i < 1000; i++) x = (x ^ x >> 3) * 2654435761u; return x; }
int main(int argc, char **argv) {
    struct rlimit limit = {2000000L * 1024, 2000000L * 1024};
    if (argc == 1) {
        setrlimit(RLIMIT_AS, &limit);
        execl("/proc/self/exe", argv[0], "inside", (char *)0);
        printf("exec %s\n", strerrorname_np(errno));
        return 1;
    }
    getrlimit(RLIMIT_AS, &limit);
    printf("limit %ld %ld\n", (long)limit.rlim_cur, (long)limit.rlim_max);
    char *half = malloc(1000L << 20);
    printf("a gigabyte %d\n", half != 0);
    errno = 0;
    char *more = malloc(2000L << 20);
    printf("two %d %s\n", more != 0, strerrorname_np(errno));
    int n = 0;
    while (mmap(0, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) n++;
    printf("exhausted %d %s\n", n > 5 && n < 63, strerrorname_np(errno));
    printf("%08x\n", fresh(3));
    free(half);
    fflush(stdout);
    int status;
    if (!fork()) { execlp("sh", "sh", "-c", "ulimit -v; exit 9", (char *)0); _exit(1); }
    wait(&status);
    printf("shell %x\n", status);
    return 0;
}
