// IFUNC resolvers, lazy and immediate binding, a PLT call as first call and
// later, function pointers equal over modules.
// build: cc -O1 -Wl,-z,lazy -rdynamic
// run: oracle
// run: no-counts resolvers run before the entry, where the oracle begins
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int fast(int x) { return x * 2; }
static int (*resolve(void))(int) { return fast; }
int chosen(int x) __attribute__((ifunc("resolve")));
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
    int v[20], s = 0;
    for (int i = 0; i < 20; i++) v[i] = i * 7919 % 101;
    qsort(v, 20, sizeof *v, compare);
    for (int i = 0; i < 20; i++) s = s * 3 + chosen(v[i]);
    char text[64];
    for (int i = 0; i < 3; i++) { strcpy(text, "hello"); strcat(text, " world"); s += strlen(text); }
    printf("%d %d\n", s, strchr(text, 'w') == text + 6);
    return 0;
}
