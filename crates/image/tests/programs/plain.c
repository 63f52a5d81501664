/* An alias, a static function, a cold one, a constructor and a destructor. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) int __real_work(int x) { return x * 3 + 1; }
int work(int x) __attribute__((alias("__real_work")));

__attribute__((noinline)) static int helper(int x) { return x ^ 0x55; }
__attribute__((constructor)) static void before_main(void) { puts("before"); }
__attribute__((destructor)) static void after_main(void) { puts("after"); }

__attribute__((noinline, cold)) static void refuse(const char *why) {
    fprintf(stderr, "%s\n", why);
    abort();
}

__attribute__((noinline)) int guarded(int x) {
    if (__builtin_expect(x > 1000, 0)) {
        fprintf(stderr, "%d is too large\n", x);
        refuse("stop");
    }
    return helper(x);
}

int main(int argc, char **argv) {
    (void)argv;
    printf("%d %d\n", work(argc), guarded(argc));
    return 0;
}
