// Two functions that call each other; written anew after listing 4.9 of
// paper 000.
// build: cc -g -O0
void bar(int depth);

void foo(int depth) {
    if (depth > 0)
        bar(depth - 1);
}

void bar(int depth) {
    if (depth > 0)
        foo(depth - 1);
}

int main(void) {
    foo(5);
    return 0;
}
