/* The search of figure 6 of VMAD (`ks` of the Pointer-Intensive Benchmarks, a graph partition after Kernighan and Schweikert):
   two lists of modules, and for each pair the gain of swapping them. `ks MODULES ROUNDS`. */
#include <stdio.h>
#include <stdlib.h>

struct module {
    struct module *next;
    long module;
    long pad[6];
};

struct group {
    struct module *head, *tail;
};

static struct group group_a, group_b;
static long *gain;
static int *cost;
static long count;

static void fill(struct group *group, struct module *from, long first) {
    for (long i = 0; i < count; i++) {
        from[i].module = first + i;
        from[i].next = i + 1 < count ? &from[i + 1] : NULL;
    }
    group->head = from;
    group->tail = from + count - 1;
}

__attribute__((noinline)) static long find(struct module **best_a, struct module **best_b) {
    struct module *a, *previous_a, *b, *previous_b;
    long most = -9999999;
    for (a = group_a.head, previous_a = NULL; a != NULL; previous_a = a, a = (*a).next) {
        for (b = group_b.head, previous_b = NULL; b != NULL; previous_b = b, b = (*b).next) {
            long got = gain[(*a).module] + gain[(*b).module] - cost[(*a).module * count + (*b).module - count];
            if (got > most) {
                most = got;
                *best_a = a;
                *best_b = b;
            }
        }
    }
    (void)previous_a;
    (void)previous_b;
    return most;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "ks MODULES ROUNDS\n");
        return 2;
    }
    count = atol(argv[1]);
    gain = calloc(2 * count, sizeof *gain);
    cost = calloc(count * count, sizeof *cost);
    fill(&group_a, calloc(count, sizeof(struct module)), 0);
    fill(&group_b, calloc(count, sizeof(struct module)), count);
    unsigned seed = 3;
    for (long i = 0; i < 2 * count; i++)
        gain[i] = (seed = seed * 1103515245 + 12345) >> 20;
    for (long i = 0; i < count * count; i++)
        cost[i] = (seed = seed * 1103515245 + 12345) >> 24;
    long sum = 0;
    for (long round = atol(argv[2]); round > 0; round--) {
        struct module *a = NULL, *b = NULL;
        sum += find(&a, &b);
        gain[a->module] -= 9999;
        gain[b->module] -= 9999;
    }
    printf("%ld\n", sum);
    return 0;
}
