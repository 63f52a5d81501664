// Two threads of control on one stack, as greenlet has them: the slice that they share is copied away, and back
// behind the load of the stack pointer.
// build: cc -O1 -fno-omit-frame-pointer
// run: no-oracle slices that are copied away are told apart live only (docs/design/0047)
#include <stdio.h>
#include <string.h>
#define N __attribute__((noinline, noclone))
struct slice { char *sp; long length; char copy[8192]; };
static struct slice outer, inner, *to;
static char *base;
static volatile long sum;
N void save(struct slice *of, char *sp) { of->sp = sp; of->length = base - sp; memcpy(of->copy, sp, of->length); }
N void restore(void) { memcpy(to->sp, to->copy, to->length); }
extern int slice_switch(struct slice *from, char *sp);
asm(".text\n.type slice_switch, @function\nslice_switch: push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
    "mov %rsi, %rbx; mov %rsp, %rsi; sub $8, %rsp; call save; add $8, %rsp\n"
    "mov $1, %eax; test %rbx, %rbx; jz 1f\n"
    "sub %rsp, %rbx; add %rbx, %rsp; sub $8, %rsp; call restore; add $8, %rsp; xor %eax, %eax\n"
    "1: pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n.size slice_switch, .-slice_switch\n");
N static long leaf(long x) { return x * 3 + 1; }
N static void yield(void) { to = &outer; slice_switch(&inner, outer.sp); }
N static void work(int depth) { if (depth) { work(depth - 1); sum += leaf(depth); } else { sum += leaf(7); yield(); } }
N static void body(void) { for (int i = 0; ; i++) work(i % 4); }
N static int enter(void) { to = &inner; return slice_switch(&outer, inner.sp); }
N static void resume(void) { base = __builtin_frame_address(0); if (enter()) body(); sum ^= leaf(1); }
int main(void) {
    for (int i = 0; i < 50; i++) resume();
    printf("%ld\n", sum);
    return 0;
}
