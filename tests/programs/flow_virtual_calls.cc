// Virtual calls, std::function, dynamic_cast, and static initialisers in order.
// build: c++ -O1
// run: oracle own-functions
// run: oracle-args 2
#include <cstdlib>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>
static int order;
struct Init { Init(int n) { order = order * 10 + n; } ~Init() { std::printf("bye %d\n", order); } };
static Init one(1), two(2), three(3);
struct Shape { virtual ~Shape() {} virtual int area() const = 0; };
template <int N> struct Box : Shape { int side; Box(int s) : side(s) {} int area() const override { return side * side + N; } };
template <int N> void fill(std::vector<std::unique_ptr<Shape>> &v) { v.push_back(std::make_unique<Box<N>>(N)); if constexpr (N > 0) fill<N - 1>(v); }
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    std::vector<std::unique_ptr<Shape>> shapes;
    fill<99>(shapes);
    long sum = 0;
    std::vector<std::function<long(long)>> steps;
    for (int k = 0; k < 20; k++) steps.push_back([k](long x) { return x * (k + 1) % 1000003; });
    for (int i = 0; i < rounds; i++) for (auto &s : shapes) { sum += s->area(); if (dynamic_cast<Box<42> *>(s.get())) sum = steps[i % 20](sum); }
    std::printf("%ld %d\n", sum, order);
    return 0;
}
