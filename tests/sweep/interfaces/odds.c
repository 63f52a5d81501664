// Calls with effects on the thread: names, affinity, restartable sequences, membarrier, prctl, limits.
#include <linux/membarrier.h>
#include <sys/prctl.h>
#include <sys/resource.h>
int main(void) {
    u64 digest = 0;
    char name[16] = {0};
    cpu_set_t cpus, one;
    MUST(sched_getaffinity(0, sizeof cpus, &cpus));
    MUST(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
    for (int i = 0; i < 10; i++) {
        char wanted[16];
        snprintf(wanted, sizeof wanted, "t%llx", (unsigned long long)(work((u64)i) & 0xffffff));
        MUST(prctl(PR_SET_NAME, wanted));
        MUST(prctl(PR_GET_NAME, name));
        digest = mix_bytes(digest, name, strlen(name));
        int cpu = 0;
        while (!CPU_ISSET(cpu, &cpus)) cpu++;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        MUST(sched_setaffinity(0, sizeof one, &one));
        digest = mix(digest, work((u64)sched_getcpu() - (u64)cpu));
        MUST(sched_setaffinity(0, sizeof cpus, &cpus));
        MUST(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
        struct rlimit limit = {(u64)(100 + i), 1000};
        MUST(prlimit(0, RLIMIT_NOFILE, &limit, 0));
        MUST(getrlimit(RLIMIT_NOFILE, &limit));
        digest = mix(mix(digest, limit.rlim_cur), (u64)getpriority(PRIO_PROCESS, 0));
        MUST(prctl(PR_SET_DUMPABLE, i & 1));
        digest = mix(digest, (u64)prctl(PR_GET_DUMPABLE));
        sched_yield();
    }
    show("digest", mix(digest, work(2)));
}
