/* Short loops that are entered often: the shapes of the programs that VMAD slows down most. `short search DEPTH` is a search of
   queens on a board with rows of attacks, `short sorts COUNT` sorts arrays of 2 to 9 numbers by insertion. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int attacked[16][16], size;
static long nodes, found;

__attribute__((noinline)) static void mark(int row, int column, int by) {
    for (int way = -1; way <= 1; way++)
        for (int r = row + 1, c = column + way; r < size && c >= 0 && c < size; r++, c += way)
            attacked[r][c] += by;
}

__attribute__((noinline)) static void place(int row) {
    nodes++;
    if (row == size) {
        found++;
        return;
    }
    for (int column = 0; column < size; column++) {
        if (attacked[row][column])
            continue;
        mark(row, column, 1);
        place(row + 1);
        mark(row, column, -1);
    }
}

__attribute__((noinline)) static void sort(int *from, int count) {
    for (int i = 1; i < count; i++) {
        int value = from[i], j = i;
        for (; j > 0 && from[j - 1] > value; j--)
            from[j] = from[j - 1];
        from[j] = value;
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "short search|sorts NUMBER\n");
        return 2;
    }
    if (strcmp(argv[1], "search") == 0) {
        size = atoi(argv[2]) & 15;
        place(0);
        printf("%ld positions, %ld solutions\n", nodes, found);
        return 0;
    }
    unsigned seed = 7, sum = 0;
    for (long round = atol(argv[2]); round > 0; round--) {
        int numbers[9], count = 2 + round % 8;
        for (int i = 0; i < count; i++) {
            seed = seed * 1103515245 + 12345;
            numbers[i] = seed >> 16;
        }
        sort(numbers, count);
        sum = sum * 31 + numbers[count / 2];
    }
    printf("%u\n", sum);
    return 0;
}
