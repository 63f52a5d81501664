// A recursion of one function below another; written anew after listing 4.6
// of paper 000.
// build: cc -g -O0
void bar(void) {}

void recFunc(int depth) {
    if (depth == 0)
        bar();
    else
        recFunc(depth - 1);
}

void foo(void) { recFunc(5); }

int main(void) {
    foo();
    return 0;
}
