/* The same work in 1, 4 or 8 threads: each sorts, multiplies matrices and counts words of
   its share. Prints a checksum that does not depend on the number of threads.
   Arguments: threads, shares (a multiple of threads). */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 1500, SIDE = 24, LETTERS = 6000, BUCKETS = 512 };

static int shares, threads;
static uint64_t sums[8192];

static uint32_t next(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t sort(uint32_t *state) {
    uint32_t numbers[NUMBERS];
    uint64_t sum = 0;
    for (int i = 0; i < NUMBERS; i++) numbers[i] = next(state) >> 8;
    qsort(numbers, NUMBERS, sizeof *numbers, compare);
    for (int i = 0; i < NUMBERS; i++) sum = sum * 31 + numbers[i];
    return sum;
}

static uint64_t multiply(uint32_t *state) {
    static __thread double a[SIDE][SIDE], b[SIDE][SIDE], c[SIDE][SIDE];
    uint64_t sum = 0;
    for (int i = 0; i < SIDE * SIDE; i++) {
        a[i / SIDE][i % SIDE] = next(state) % 16;
        b[i / SIDE][i % SIDE] = next(state) % 16;
    }
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            double dot = 0;
            for (int k = 0; k < SIDE; k++) dot += a[i][k] * b[k][j];
            c[i][j] = dot;
        }
    for (int i = 0; i < SIDE * SIDE; i++) sum = sum * 31 + (uint64_t)c[i / SIDE][i % SIDE];
    return sum;
}

static uint64_t words(uint32_t *state) {
    unsigned counts[BUCKETS] = {0};
    uint32_t word = 5381;
    uint64_t sum = 0;
    for (int i = 0; i < LETTERS; i++) {
        char letter = "etaoin shrdlu cmfwyp"[next(state) % 20];
        if (letter == ' ') {
            counts[word % BUCKETS]++;
            word = 5381;
        } else {
            word = word * 33 + letter;
        }
    }
    for (int i = 0; i < BUCKETS; i++)
        if (counts[i]) sum = sum * 31 + counts[i];
    return sum;
}

static uint64_t (*const kinds[])(uint32_t *) = {sort, multiply, words};

static void *work(void *argument) {
    int first = (int)(intptr_t)argument;
    for (int share = first; share < shares; share += threads) {
        uint32_t state = 2463534242u + share;
        for (int kind = 0; kind < 3; kind++) sums[share] = sums[share] * 31 + kinds[kind](&state);
    }
    return 0;
}

int main(int count, char **arguments) {
    pthread_t ids[64];
    uint64_t all = 0;
    threads = count > 1 ? atoi(arguments[1]) : 1;
    shares = count > 2 ? atoi(arguments[2]) : 16;
    if (threads < 1 || threads > 64 || shares < 1 || shares > 8192) return 1;
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], 0, work, (void *)(intptr_t)i);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], 0);
    for (int i = 0; i < shares; i++) all = all * 31 + sums[i];
    printf("%016llx\n", (unsigned long long)all);
    return 0;
}
