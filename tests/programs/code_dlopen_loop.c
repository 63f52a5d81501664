// dlopen, call, dlclose two hundred times; constructors and destructors run
// each time; another library may get the same address; lazy binding.
// build: cc -O1 -rdynamic -Wl,-z,lazy
// part: one.so cc -O1 -shared -fPIC -DPLUGIN=1 -Wl,-z,lazy
// part: two.so cc -O1 -shared -fPIC -DPLUGIN=2 -Wl,-z,lazy
// run: oracle
// run: oracle-args 6
#include <stdlib.h>
#include <dlfcn.h>
#include <stdio.h>
#ifdef PLUGIN
extern int count;
int host(int x);
__attribute__((constructor)) static void up(void) { count += PLUGIN; }
__attribute__((destructor)) static void down(void) { count += 100 * PLUGIN; }
int plugin(int x) { return host(x) * PLUGIN + 1; }
#else
int count;
int host(int x) { return x + 1; }
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    unsigned sum = 0;
    for (int i = 0; i < rounds; i++) {
        void *h = dlopen(i % 3 ? "./one.so" : "./two.so", i & 1 ? RTLD_NOW : RTLD_LAZY);
        if (!h) { printf("%s\n", dlerror()); return 1; }
        int (*f)(int) = (int (*)(int))dlsym(h, "plugin");
        sum = sum * 31 + f(i);
        dlclose(h);
    }
    printf("%u %d %s\n", sum, count, dlopen("./none.so", RTLD_NOW) ? "?" : "none");
    return 0;
}
#endif
