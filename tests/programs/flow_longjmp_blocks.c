// longjmp in a program without libraries: the block that loads the stack pointer is longjmp's.
// build: cc -O1 -static
// run: oracle
#include <stdio.h>
#define N __attribute__((noinline,noclone))
#include <setjmp.h>
static jmp_buf jb; volatile int v;
N int f(int n) { if (n == 3) longjmp(jb, 1); v++; return n; }
N int sj(int n) { if (setjmp(jb)) return v; int r = f(n); return r + 1; }
int main() { int s = 0; for (int i = 1; i < 5; i++) s += sj(i); printf("%d\n", s); return 0; }
