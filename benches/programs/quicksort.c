// Hoare's quicksort of random numbers: branches that nothing predicts.
#include <stdio.h>
#include <stdlib.h>
static void quick(int *a, int lo, int hi) {
    while (lo < hi) {
        int p = a[(lo + hi) / 2], i = lo, j = hi;
        while (i <= j) {
            while (a[i] < p) i++;
            while (a[j] > p) j--;
            if (i <= j) { int t = a[i]; a[i] = a[j]; a[j] = t; i++; j--; }
        }
        if (j - lo < hi - i) { quick(a, lo, j); lo = i; } else { quick(a, i, hi); hi = j; }
    }
}
int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 3000000;
    int *a = malloc(n * sizeof *a);
    unsigned x = 1;
    for (int i = 0; i < n; i++) { x = x * 1664525 + 1013904223; a[i] = x >> 1; }
    quick(a, 0, n - 1);
    unsigned sum = 0;
    for (int i = 0; i < n; i++) sum = sum * 31 + a[i];
    printf("%u\n", sum);
    return 0;
}
