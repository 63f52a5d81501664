// x87 stack and control word, mxcsr rounding and sticky flags survive calls,
// system calls, and being away in new code.
// build: cc -O1 -frounding-math -lm
// run: oracle own-functions
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>
static double volatile third = 3.0, one = 1.0;
int main(void) {
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (int i = 0; i < 4; i++) {
        fesetround(modes[i]);
        double q = one / third;
        getppid();
        long double l = (long double)one / third;
        printf("%d %a %La %ld\n", fegetround() == modes[i], q, l, lrint(2.5 * third));
    }
    fesetround(FE_TONEAREST);
    feclearexcept(FE_ALL_EXCEPT);
    volatile double x = one / third;
    printf("inexact %d\n", !!fetestexcept(FE_INEXACT));
    x = one / (third - 3.0);
    getppid();
    printf("divbyzero %d overflow %d\n", !!fetestexcept(FE_DIVBYZERO), !!fetestexcept(FE_OVERFLOW));
    unsigned short cw = 0x27f, got, status;
    long double deep;
    asm volatile("fldcw %3; fld1; fldpi; fldl2e; fldln2; fldlg2; fldz; fld1; faddp; faddp; faddp; faddp; faddp; faddp; fstpt %0; fnstcw %1; fnstsw %2"
                 : "=m"(deep), "=m"(got), "=m"(status) : "m"(cw));
    printf("x87 %La cw %x top %d\n", deep, got, status >> 11 & 7);
    asm volatile("fninit");
    unsigned mxcsr = 0x9fc0, back;
    asm volatile("ldmxcsr %0" : : "m"(mxcsr));
    getppid();
    asm volatile("stmxcsr %0" : "=m"(back));
    printf("mxcsr %x\n", back & ~0x3f);
    return 0;
}
