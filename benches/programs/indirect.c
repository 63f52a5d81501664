/* Indirect calls and jumps: a threaded interpreter, virtual calls over many
   shapes in unpredictable order, and qsort with a comparison function. */
#include <stdio.h>
#include <stdlib.h>

struct shape { long (*area)(const struct shape *); long a, b; };
#define SHAPE(n) static long area##n(const struct shape *s) { return s->a * (n) + (s->b >> ((n) & 7)); }
SHAPE(1) SHAPE(2) SHAPE(3) SHAPE(4) SHAPE(5) SHAPE(6) SHAPE(7) SHAPE(8)
SHAPE(9) SHAPE(10) SHAPE(11) SHAPE(12) SHAPE(13) SHAPE(14) SHAPE(15) SHAPE(16)
static long (*const areas[])(const struct shape *) = {
    area1, area2, area3, area4, area5, area6, area7, area8,
    area9, area10, area11, area12, area13, area14, area15, area16,
};

static unsigned long long state = 1;
static unsigned draw(void)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(state >> 33);
}
static int compare(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}
static long interpret(const unsigned char *code, long n)
{
    static const void *const labels[] = { &&add, &&sub, &&mul, &&shift, &&swap, &&loop };
    long a = 1, b = 3, pc = 0;
#define NEXT goto *labels[code[pc++]]
    NEXT;
add: a += b; NEXT;
sub: b -= a >> 3; NEXT;
mul: a *= 5; NEXT;
shift: b ^= a << 1; NEXT;
swap: { long t = a; a = b; b = t; } NEXT;
loop: if (--n) { pc = 0; NEXT; }
    return a ^ b;
}
int main(void)
{
    enum { SHAPES = 4096, NUMBERS = 1 << 19 };
    static struct shape shapes[SHAPES];
    static unsigned numbers[NUMBERS];
    static unsigned char code[256];
    long sum = 0;
    for (int i = 0; i < SHAPES; i++) shapes[i] = (struct shape){ areas[draw() % 16], draw(), draw() };
    for (int i = 0; i < 255; i++) code[i] = (unsigned char)(draw() % 5);
    code[255] = 5;
    for (int round = 0; round < 24000; round++)
        for (int i = 0; i < SHAPES; i++) sum += shapes[i].area(&shapes[i]);
    for (int i = 0; i < NUMBERS; i++) numbers[i] = draw();
    qsort(numbers, NUMBERS, sizeof numbers[0], compare);
    printf("%ld %ld %u\n", sum, interpret(code, 1000000), numbers[NUMBERS / 2]);
    return 0;
}
