// A program that looks for the engine's code. In /proc/self/maps no mapping is
// both writable and executable, nor executable and nameless. No word of its
// memory, signal frames, or what lies below its stack pointer is the address
// of executable memory that maps does not show: a child, which sees the
// process from outside, says where there is any. Half of a pointer beside other
// data can look like such an address, but not in every one of several runs.
// build: cc -O1 -pthread
// run: no-oracle it looks at every word of its memory
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { MOST = 500 };
struct map { uintptr_t start, end; int writes, runs, odd; };
struct view { struct map maps[MOST]; int count; };
static struct view own, *outside;
static int caught;
static void load(struct view *view, pid_t of) {
    char path[60] = "/proc/self/maps", line[600];
    if (of) sprintf(path, "/proc/%d/maps", of);
    FILE *file = fopen(path, "r");
    for (view->count = 0; view->count < MOST && fgets(line, sizeof line, file); view->count++) {
        struct map *m = view->maps + view->count;
        char rights[5], name[200] = "";
        sscanf(line, "%lx-%lx %4s %*s %*s %*s %199[^\n]", &m->start, &m->end, rights, name);
        m->writes = rights[0] == 'r' && rights[1] == 'w';
        m->runs = rights[2] == 'x';
        m->odd = m->runs && (rights[1] == 'w' || !name[0]);
    }
    fclose(file);
}
static void look(void) {
    load(&own, 0);
    pid_t me = getpid(), child = fork();
    if (!child) { load(outside, me); _exit(0); }
    waitpid(child, 0, 0);
}
static int holds(const struct view *view, uintptr_t at) {
    for (int i = 0; i < view->count; i++)
        if (view->maps[i].runs && view->maps[i].start < at && at < view->maps[i].end) return 1;
    return 0;
}
static int leaks(uintptr_t from, uintptr_t to) {
    int found = 0;
    for (uintptr_t at = from; at + 8 <= to; at += 8) {
        uintptr_t value = *(volatile uintptr_t *)at;
        if (value > 65536 && holds(outside, value) && !holds(&own, value)) found++;
    }
    return found;
}
static int all(void) {
    int found = 0;
    for (int i = 0; i < own.count; i++) if (own.maps[i].writes) found += leaks(own.maps[i].start, own.maps[i].end);
    return found;
}
static void handler(int sig, siginfo_t *info, void *context) {
    look();
    caught += all();
}
static void *thread(void *arg) { raise(SIGUSR1); return arg; }
static int search(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, 0);
    outside = mmap(0, sizeof *outside, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    look();
    int odd = 0, status;
    for (int i = 0; i < own.count; i++) odd += own.maps[i].odd;
    int words = all();
    raise(SIGUSR1);
    pthread_t t;
    pthread_create(&t, 0, thread, 0);
    pthread_join(t, 0);
    pid_t child = fork();
    if (!child) { caught = 0; raise(SIGUSR1); _exit(caught > 255 ? 255 : caught); }
    waitpid(child, &status, 0);
    printf("%d %d %d %d\n", odd, words, caught, WEXITSTATUS(status));
    return 0;
}
int main(int argc, char **argv) {
    if (argc > 1) return search();
    char command[4096];
    snprintf(command, sizeof command, "exec '%s' search", argv[0]);
    int least[4] = {9999, 9999, 9999, 9999};
    for (int run = 0; run < 4; run++) {
        int found[4];
        FILE *other = popen(command, "r");
        if (fscanf(other, "%d %d %d %d", found, found + 1, found + 2, found + 3) != 4) return 1;
        pclose(other);
        for (int i = 0; i < 4; i++) if (found[i] < least[i]) least[i] = found[i];
    }
    printf("odd mappings %d, words %d, in handlers %d, in a child %d\n", least[0], least[1], least[2], least[3]);
    return 0;
}
