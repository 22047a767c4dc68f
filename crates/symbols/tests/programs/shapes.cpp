#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace shapes {

template <class T> struct Box {
    explicit Box(T value) : values(3, value) {}
    template <class F> T fold(F f) const
    {
        T sum{};
        for (const T &value : values)
            sum = f(sum, value);
        return sum;
    }
    std::vector<T> values;
};

struct Shape {
    virtual ~Shape() = default;
    virtual std::string name() const = 0;
};

namespace {
struct Circle final : Shape {
    std::string name() const override { return std::string("circle of a radius that does not fit in place"); }
};
} // namespace

__attribute__((noinline)) std::unique_ptr<Shape> make(int kind)
{
    if (kind < 0)
        throw std::invalid_argument("kind");
    return std::make_unique<Circle>();
}

} // namespace shapes

int main(int argc, char **)
{
    std::map<std::string, int> seen;
    shapes::Box<long> numbers(argc);
    shapes::Box<std::string> words("a word that is longer than the small string");
    long sum = numbers.fold([](long a, long b) { return a + b; });
    std::string all = words.fold([](const std::string &a, const std::string &b) { return a + b; });
    seen[shapes::make(argc)->name() + all] += static_cast<int>(sum);
    std::vector<std::string> names;
    for (const auto &entry : seen)
        names.push_back(entry.first);
    std::sort(names.begin(), names.end(), [](const auto &a, const auto &b) { return a.size() < b.size(); });
    return std::printf("%s\n", names[0].c_str()) < 0;
}
