// Template-heavy C++ that the compiler spends its time on: containers, maps
// of strings, regular expressions, tuples and recursive instantiation.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

template <int N> struct Fib { static constexpr long value = Fib<N - 1>::value + Fib<N - 2>::value; };
template <> struct Fib<0> { static constexpr long value = 0; };
template <> struct Fib<1> { static constexpr long value = 1; };

template <int N> struct Tag { int value = N; };
template <int N> long use()
{
    std::map<int, std::vector<Tag<N>>> map;
    for (int i = 0; i < N; i++) map[i % 7].push_back(Tag<N>{});
    std::function<long(long)> f = [&](long x) { return x + static_cast<long>(map.size()); };
    std::variant<int, std::string, Tag<N>> v = Tag<N>{};
    std::tuple<int, Tag<N>, std::string> t{N, {}, std::to_string(N)};
    return f(std::get<0>(t)) + static_cast<long>(v.index());
}
template <int... N> long all(std::integer_sequence<int, N...>) { return (use<N>() + ... + 0L); }

int main()
{
    std::regex word("([a-z]+)([0-9]*)");
    std::smatch match;
    std::string text = "abc123";
    std::cout << std::regex_match(text, match, word) << Fib<80>::value
              << all(std::make_integer_sequence<int, 6>{}) << '\n';
}
