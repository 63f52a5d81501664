// Contexts of C++ exceptions: activations end where the stack is unwound to,
// destructors are called by the unwinder, catching functions go on calling.
// build: c++ -O1 -fno-inline -static-libstdc++ -static-libgcc
// run: oracle
#include <cstdio>
static int sum;
struct Guard { int n; ~Guard() { sum += n; } };
static void leaf(int n) { if (n > 3) throw n; sum++; }
static void middle(int n) { Guard guard{n}; leaf(n); sum += 10; }
static int catching(int n) { try { middle(n); } catch (int x) { leaf(1); return x; } leaf(2); return 0; }
int main() {
    for (int i = 2; i < 6; i++) sum += catching(i);
    std::printf("%d\n", sum);
    return 0;
}
