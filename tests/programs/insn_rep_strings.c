// Every rep string instruction: forward and backward, zero count, overlap,
// early stop of scas and cmps, final rcx, rsi, rdi and flags.
// build: cc -O1
// run: oracle own-functions
// run: oracle-args 1
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
static unsigned char a[300], b[300];
static unsigned long si, di, cx, ax, fl;
static void fill(void) { for (int i = 0; i < 300; i++) { a[i] = i * 7; b[i] = i * 7; } b[100] ^= 1; }
static unsigned hash(void) { unsigned h = 1; for (int i = 0; i < 300; i++) h = h * 31 + a[i] * 3 + b[i]; return h; }
#define STR(x) #x
#define DO(insn, pre, s, d, c, x) do { fill(); si = s; di = d; cx = c; ax = x; \
    asm volatile("cmp %%eax, %%eax\n\t" pre "\n\t" insn "\n\tpushf\n\tpop %4\n\tcld" \
        : "+S"(si), "+D"(di), "+c"(cx), "+a"(ax), "=r"(fl) : : "memory", "cc"); \
    printf("%-12s %-4s si %ld di %ld cx %ld ax %lx fl %lx %08x\n", insn, pre, si - (long)a, di - (long)b, cx, \
        strncmp(insn, "rep lods", 8) ? 0 : ax, fl & 0x8d5, hash()); } while (0)
#define A(n) (unsigned long)(a + n)
#define B(n) (unsigned long)(b + n)
int main(int argc, char **argv) {
    int most = argc > 1 ? atoi(argv[1]) : 40;
    for (int n = 0; n < most; n += 13) {
        DO("rep movsb", "cld", A(8), B(20), n, 0);
        DO("rep movsb", "std", A(100), B(120), n, 0);
        DO("rep movsw", "std", A(100), B(120), n, 0);
        DO("rep movsl", "cld", A(8), B(16), n, 0);
        DO("rep movsq", "std", A(264), B(256), n / 2, 0);
        DO("rep movsb", "cld", B(10), B(11), n, 0);
        DO("rep movsb", "std", B(50), B(51), n, 0);
        DO("rep stosb", "cld", A(0), B(4), n, 0x55);
        DO("rep stosl", "std", A(0), B(200), n, 0x12345678);
        DO("rep stosq", "cld", A(0), B(8), n / 2, 0x1234567890abcdef);
        DO("rep lodsb", "cld", A(2), B(0), n, 0);
        DO("rep lodsq", "std", A(200), B(0), n / 2, 1);
        DO("repne scasb", "cld", A(0), B(0), n * 9, 7);
        DO("repe scasb", "cld", A(0), B(0), n, 0);
        DO("repe cmpsb", "cld", A(90), B(90), n, 0);
        DO("repe cmpsb", "std", A(110), B(110), n, 0);
        DO("repne cmpsb", "cld", A(90), B(91), n, 0);
        DO("repe cmpsq", "cld", A(80), B(80), n, 0);
    }
    DO("movsb", "std", A(10), B(10), 5, 0);
    DO("lodsw", "cld", A(10), B(10), 5, 0xffff0000);
    DO("scasl", "std", A(10), B(10), 5, 0);
    return 0;
}
