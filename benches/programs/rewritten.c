// Code that is written over so many times, and executed each time: what counts, as the bytes
// differ, as other code at the same place. Arguments: rounds, threads that do the same
// (1), each in a page of its own.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int rounds;

// mov %edi,%eax; add $round,%eax; test %edi,%edi; je end; inc %eax; end: ret
static const unsigned char code[] = {0x89, 0xf8, 0x05, 0, 0, 0, 0, 0x85, 0xff, 0x74, 2, 0xff, 0xc0, 0xc3};

static void *rewrite(void *sum) {
    int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    unsigned char *page = mmap(0, 4096, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    for (int i = 0; i < rounds; i++) {
        memcpy(page + 3, &i, sizeof i);
        *(unsigned *)sum = *(unsigned *)sum * 31 + ((int (*)(int))(void *)page)(i & 7);
    }
    return 0;
}

int main(int count, char **words) {
    unsigned sums[64] = {0};
    pthread_t threads[64];
    int n = count > 2 ? atoi(words[2]) : 1;
    rounds = atoi(words[1]);
    for (int i = 0; i < n; i++) pthread_create(&threads[i], 0, rewrite, &sums[i]);
    for (int i = 0; i < n; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < n; i++) printf("%u\n", sums[i]);
    return 0;
}
