// Templates, overloads, lambdas, virtual calls, exceptions and a cold part.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace shapes {

struct Shape {
    virtual ~Shape() = default;
    virtual double area() const = 0;
    bool operator!=(const Shape &other) const { return area() < other.area(); }
};

template <typename T> struct Box : Shape {
    T width, height;
    Box(T w, T h) : width(w), height(h) {}
    __attribute__((noinline)) double area() const override { return double(width * height); }
};

__attribute__((noinline)) double total(const std::vector<Shape *> &all) {
    double sum = 0;
    for (auto shape : all)
        sum += shape->area();
    return sum;
}

__attribute__((noinline)) int checked(const std::string &text, int limit) {
    if (int(text.size()) > limit)
        throw std::runtime_error("too long: " + text);
    return int(text.size());
}

} // namespace shapes

template <typename F> __attribute__((noinline)) int apply(F f, int x) { return f(x) + 1; }
template <typename T> __attribute__((noinline)) T biggest(T a, T b) { return a < b ? b : a; }

int main(int argc, char **argv) {
    shapes::Box<int> a(2, 3);
    shapes::Box<double> b(2.5, 4);
    std::vector<shapes::Shape *> all{&a, &b};
    try {
        std::printf("%d\n", shapes::checked(argv[0], argc > 1 ? 1 : 4096) > 0);
    } catch (const std::exception &error) {
        std::printf("%s\n", error.what());
    }
    std::printf("%g %d %d %d\n", shapes::total(all), apply([](int x) { return x * 2; }, 20), biggest(argc, 1), a != b);
    std::printf("%s\n", biggest<std::string>("x", "y").c_str());
}
