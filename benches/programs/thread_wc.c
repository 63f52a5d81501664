// Counts lines, words and bytes of a file, as wc does, in as many threads as asked for: each takes a part.
// With -DMENDED the totals of each thread have lines of memory of their own.
#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct totals {
    long lines, words, bytes;
}
#ifdef MENDED
__attribute__((aligned(64)))
#endif
;

struct part {
    const unsigned char *from, *to;
    struct totals *totals;
};

static void *count(void *argument) {
    const struct part *part = argument;
    struct totals *totals = part->totals;
    int in_word = 0;
    // A byte that is read may be part of the totals, for all that the compiler knows: each is stored.
    for (const unsigned char *at = part->from; at < part->to; at++) {
        totals->bytes++;
        totals->lines += *at == '\n';
        int is_space = *at == ' ' || *at == '\n' || *at == '\t';
        totals->words += in_word && is_space;
        in_word = !is_space;
    }
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    int file = argc > 2 ? open(argv[2], O_RDONLY) : -1;
    struct stat stat;
    if (threads < 1 || threads > 64 || fstat(file, &stat) != 0)
        return 2;
    const unsigned char *text = mmap(NULL, stat.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (text == MAP_FAILED)
        return 2;
    static struct totals totals[64];
    static struct part parts[64];
    pthread_t ids[64];
    long each = stat.st_size / threads;
    for (int i = 0; i < threads; i++) {
        const unsigned char *to = i + 1 == threads ? text + stat.st_size : text + (i + 1) * each;
        parts[i] = (struct part){text + i * each, to, &totals[i]};
        pthread_create(&ids[i], NULL, count, &parts[i]);
    }
    struct totals sum = {0};
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        sum.lines += totals[i].lines;
        sum.words += totals[i].words;
        sum.bytes += totals[i].bytes;
    }
    printf("%ld %ld %ld\n", sum.lines, sum.words, sum.bytes);
    return 0;
}
