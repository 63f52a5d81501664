// Mergesort of random numbers, from the top.
#include <stdio.h>
#include <stdlib.h>
static void merge(int *a, int *b, int lo, int mid, int hi) {
    int i = lo, j = mid, k = lo;
    while (i < mid && j < hi) b[k++] = a[i] <= a[j] ? a[i++] : a[j++];
    while (i < mid) b[k++] = a[i++];
    while (j < hi) b[k++] = a[j++];
    for (k = lo; k < hi; k++) a[k] = b[k];
}
static void sort(int *a, int *b, int lo, int hi) {
    if (hi - lo < 2) return;
    int mid = (lo + hi) / 2;
    sort(a, b, lo, mid);
    sort(a, b, mid, hi);
    merge(a, b, lo, mid, hi);
}
int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 3000000;
    int *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    unsigned x = 1;
    for (int i = 0; i < n; i++) { x = x * 1664525 + 1013904223; a[i] = x >> 1; }
    sort(a, b, 0, n);
    unsigned sum = 0;
    for (int i = 0; i < n; i++) sum = sum * 31 + a[i];
    printf("%u\n", sum);
    return 0;
}
