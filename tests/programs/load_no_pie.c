// A dynamic non-PIE program starts, and sees its arguments and environment.
// build: cc -O2 -no-pie -fno-pie
// run: args one two
// run: oracle own-functions
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) printf("%s\n", argv[i]);
    printf("%d %s\n", argc, argv[argc] ? "not null" : "null");
    setenv("EVP_TEST", "x", 1);
    printf("%s\n", getenv("EVP_TEST"));
    return 0;
}
