// A program that walks its own stack sees its own return addresses.
// build: cc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -rdynamic
// run: oracle own-functions
#include <execinfo.h>
#include <stdio.h>
#include <string.h>
__attribute__((noinline)) int report(void) {
    void *at[32];
    int n = backtrace(at, 32);
    char **names = backtrace_symbols(at, n);
    for (int i = 0; i < n; i++) {
        char *open = strchr(names[i], '('), *plus = open ? strchr(open, '+') : 0;
        if (plus && plus > open + 1) printf("%.*s\n", (int)(plus - open - 1), open + 1);
        if (strstr(names[i], "(main+")) break;
    }
    void **frame = __builtin_frame_address(0);
    printf("return address %d\n", frame[1] == __builtin_return_address(0));
    return n;
}
__attribute__((noinline)) int middle(int n) { return n ? middle(n - 1) + 1 : report() > 0; }
int main(void) { printf("%d\n", middle(3)); return 0; }
