/* Calls and little else: naive Fibonacci, tak, Ackermann, tree building. */
#include <stdio.h>
#include <stdlib.h>

struct tree { struct tree *left, *right; };

__attribute__((noinline)) static long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__attribute__((noinline)) static int tak(int x, int y, int z)
{
    return y >= x ? z : tak(tak(x - 1, y, z), tak(y - 1, z, x), tak(z - 1, x, y));
}
__attribute__((noinline)) static int ackermann(int m, int n)
{
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
__attribute__((noinline)) static struct tree *grow(int depth)
{
    struct tree *t = calloc(1, sizeof *t);
    if (depth) { t->left = grow(depth - 1); t->right = grow(depth - 1); }
    return t;
}
__attribute__((noinline)) static int fell(struct tree *t)
{
    int n = t ? 1 + fell(t->left) + fell(t->right) : 0;
    free(t);
    return n;
}
int main(void)
{
    int nodes = 0;
    for (int i = 0; i < 12; i++) nodes += fell(grow(16));
    printf("%ld %d %d %d\n", fib(42), tak(22, 14, 6), ackermann(3, 11), nodes);
    return 0;
}
