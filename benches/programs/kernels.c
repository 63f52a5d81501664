/* Kernels of the shapes of PolyBench's, with arrays that are globals: `kernels NAME ROUNDS`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 200

static double a[N][N], b[N][N], c[N][N], x[N], y[N];
static int columns[N * 8], rows[N + 1];

static void gemm(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            c[i][j] *= 0.5;
            for (int k = 0; k < N; k++)
                c[i][j] += 1.5 * a[i][k] * b[k][j];
        }
}

static void jacobi(void) {
    for (int step = 0; step < 20; step++) {
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                b[i][j] = 0.2 * (a[i][j] + a[i][j - 1] + a[i][j + 1] + a[i + 1][j] + a[i - 1][j]);
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                a[i][j] = 0.2 * (b[i][j] + b[i][j - 1] + b[i][j + 1] + b[i + 1][j] + b[i - 1][j]);
    }
}

static void seidel(void) {
    for (int step = 0; step < 20; step++)
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                a[i][j] = (a[i - 1][j - 1] + a[i - 1][j] + a[i - 1][j + 1] + a[i][j - 1] + a[i][j] + a[i][j + 1]
                           + a[i + 1][j - 1] + a[i + 1][j] + a[i + 1][j + 1]) / 9.0;
}

static void lu(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            c[i][j] = a[i][j] + (i == j ? 2.0 * N : 0.0);
    for (int k = 0; k < N; k++)
        for (int i = k + 1; i < N; i++) {
            c[i][k] /= c[k][k];
            for (int j = k + 1; j < N; j++)
                c[i][j] -= c[i][k] * c[k][j];
        }
}

static void floyd(void) {
    for (int k = 0; k < N; k++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                c[i][j] = c[i][j] < c[i][k] + c[k][j] ? c[i][j] : c[i][k] + c[k][j];
}

static void triangular(void) {
    for (int i = 0; i < N; i++) {
        x[i] = y[i];
        for (int j = 0; j < i; j++)
            x[i] -= a[i][j] * 1e-3 * x[j];
    }
}

static void sparse(void) {
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int k = rows[i]; k < rows[i + 1]; k++)
            sum += a[i][k & 7] * x[columns[k]];
        y[i] = sum * 0.1 + 1;
    }
    memcpy(x, y, sizeof x);
}

static const struct {
    const char *name;
    void (*run)(void);
} kernels[] = {
    {"gemm", gemm}, {"jacobi", jacobi}, {"seidel", seidel}, {"lu", lu},
    {"floyd", floyd}, {"triangular", triangular}, {"sparse", sparse},
};

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "kernels NAME ROUNDS\n");
        return 2;
    }
    unsigned seed = 1;
    for (int i = 0; i < N; i++) {
        x[i] = y[i] = i * 0.5;
        rows[i + 1] = rows[i] + i % 8;
        for (int j = 0; j < N; j++) {
            a[i][j] = (i * j % 7) * 0.25;
            b[i][j] = (i + j) % 5 * 0.5;
            c[i][j] = (i + 2 * j) % 3 + 1;
        }
    }
    for (int i = 0; i < N * 8; i++) {
        seed = seed * 1103515245 + 12345;
        columns[i] = (seed >> 16) % N;
    }
    for (unsigned at = 0; at < sizeof kernels / sizeof *kernels; at++)
        if (strcmp(argv[1], kernels[at].name) == 0)
            for (int round = atoi(argv[2]); round > 0; round--)
                kernels[at].run();
    double sum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            sum += a[i][j] + b[i][j] + c[i][j] + x[i] + y[j];
    printf("%.6e\n", sum);
    return 0;
}
