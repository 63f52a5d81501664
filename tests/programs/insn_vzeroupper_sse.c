// The SSE and AVX states stay apart: legacy SSE keeps upper halves,
// vzeroupper and VEX instructions clear them, wherever the engine was between.
// build: cc -O1 -mavx
// run: needs avx
// run: oracle own-functions
#include <stdio.h>
int main(void) {
    unsigned long v[4] = {1, 2, 3, 4}, a[4], b[4], c[4];
    asm volatile("vmovdqu %3, %%ymm5; paddq %%xmm5, %%xmm5; lea 1f(%%rip), %%rax; jmp *%%rax; 1: vmovdqu %%ymm5, %0;"
                 "vpaddq %%xmm5, %%xmm5, %%xmm5; mov $39, %%eax; syscall; vmovdqu %%ymm5, %1;"
                 "vmovdqu %3, %%ymm6; vzeroupper; call 2f; jmp 3f; 2: ret; 3: vmovdqu %%ymm6, %2"
                 : "=m"(a), "=m"(b), "=m"(c) : "m"(v) : "rax", "rcx", "r11", "xmm5", "xmm6", "memory");
    for (int i = 0; i < 4; i++) printf("%lu %lu %lu\n", a[i], b[i], c[i]);
    return 0;
}
