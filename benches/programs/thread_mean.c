// The mean brightness of each column of an image of random bytes, in as many threads as asked for: each takes
// some columns. With -DMENDED a thread goes along the rows, which is how the image lies in memory.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 4096, HEIGHT = 4096 };

static unsigned char image[HEIGHT][WIDTH];
static unsigned sums[WIDTH];

struct part {
    int from, to;
};

static void *mean(void *argument) {
    const struct part *part = argument;
#ifdef MENDED
    for (int y = 0; y < HEIGHT; y++)
        for (int x = part->from; x < part->to; x++)
            sums[x] += image[y][x];
#else
    for (int x = part->from; x < part->to; x++)
        for (int y = 0; y < HEIGHT; y++)
            sums[x] += image[y][x];
#endif
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    if (threads < 1 || threads > 64)
        return 2;
    unsigned state = 1;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            image[y][x] = (state = state * 1664525 + 1013904223) >> 24;
    pthread_t ids[64];
    static struct part parts[64];
    for (int i = 0; i < threads; i++) {
        parts[i] = (struct part){WIDTH * i / threads, WIDTH * (i + 1) / threads};
        pthread_create(&ids[i], NULL, mean, &parts[i]);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    unsigned long sum = 0;
    for (int x = 0; x < WIDTH; x++)
        sum += sums[x] / HEIGHT;
    printf("%lu\n", sum / WIDTH);
    return 0;
}
