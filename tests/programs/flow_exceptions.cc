// C++ exceptions through many frames, with destructors, rethrow, nested
// catches, and a type the handler does not want.
// build: c++ -O1
// run: oracle own-functions
// run: oracle-args 3
#include <cstdlib>
#include <cstdio>
#include <stdexcept>
#include <string>
static int destroyed;
struct Guard { int n; ~Guard() { destroyed += n; } };
__attribute__((noinline)) static int down(int n, int how) {
    Guard guard{n};
    if (n == 0) { if (how & 1) throw std::runtime_error("deep " + std::to_string(how)); throw how; }
    try { return down(n - 1, how) + 1; }
    catch (long) { return -1; }
    catch (int x) { if (n % 5 == 0) throw; throw x + 1; }
}
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    for (int i = 0; i < rounds; i++) {
        try { down(i % 30, i); }
        catch (const std::exception &e) { if (i % 40 == 1) std::printf("%s\n", e.what()); }
        catch (int x) { if (i % 40 == 2) std::printf("%d\n", x); }
    }
    try { try { throw 1; } catch (int) { try { throw std::string("inner"); } catch (std::string &s) { std::puts(s.c_str()); } throw; } }
    catch (int x) { std::printf("outer %d\n", x); }
    std::printf("%d\n", destroyed);
    return 0;
}
