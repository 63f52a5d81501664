// Every resource limit has its own value before and after exec, and setting
// one sets exactly that.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct rlimit limit;
    int low = argc > 1;
    for (int i = 0; i < RLIMIT_NLIMITS; i++) {
        if (!low && i != RLIMIT_STACK && i != RLIMIT_AS) {
            getrlimit(i, &limit);
            if (limit.rlim_cur > 1000 + (unsigned)i) limit.rlim_cur = 1000 + i;
            if (i == RLIMIT_DATA || i == RLIMIT_CPU || i == RLIMIT_FSIZE || i == RLIMIT_RTTIME) continue;
            printf("set %d %d\n", i, setrlimit(i, &limit));
        }
        getrlimit(i, &limit);
        printf("%d: %ld %ld\n", i, (long)limit.rlim_cur, (long)limit.rlim_max);
        struct rlimit again;
        prlimit(0, i, 0, &again);
        if (memcmp(&again, &limit, sizeof again)) printf("prlimit differs\n");
    }
    fflush(stdout);
    if (!low) execl("/proc/self/exe", argv[0], "inside", (char *)0);
    return 0;
}
