"""Writes a large C file of many different functions, for a compiler to chew on."""
import sys

state = 7


def draw(n):
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return (state >> 33) % n


print("#include <stdio.h>\n#include <string.h>\n#include <stdlib.h>")
print("struct record { int kind; long value; char name[24]; struct record *next; };")
count = int(sys.argv[1])
for f in range(count):
    print(f"static long work_{f}(struct record *r, long a, long b)\n{{\n    long s = a * {draw(90) + 3};")
    print(f"    for (int i = 0; i < {draw(40) + 4}; i++) {{")
    print("        switch ((a + i) % 6) {")
    for case in range(6):
        operator = "+-^|&*"[draw(6)]
        print(f"        case {case}: s = (s {operator} (b + {draw(1000)})) + (i << {draw(5)}); break;")
    print("        }")
    print(f"        if (r && r->kind == {draw(50)}) s += r->value / (i + {draw(9) + 1});")
    print("    }")
    if f:
        print(f"    if (s % {draw(20) + 2} == 0) s += work_{draw(f)}(r ? r->next : r, s / 2, b - 1);")
    print(f"    if (r) {{ memset(r->name, {draw(26) + 97}, {draw(20) + 1}); r->value ^= s; }}")
    print("    return s;\n}")
print("int main(int argc, char **argv)\n{\n    struct record r = {0};\n    long s = argc;")
for f in range(count):
    print(f"    s += work_{f}(&r, s, {draw(100)});")
print('    printf("%ld\\n", s);\n    return 0;\n}')
