// build: -std=c++11 -I../preload/include
// The C++ face of mallow.h.
#include <mallow.h>

#include <stdexcept>
#include <string>
#include <vector>

int main() {
    std::vector<int> numbers;
    mallow::measure("vector", [&numbers] {
        numbers = std::vector<int>(100);
        return numbers.size();
    });
    const auto nothing = [] { return 0; };
    mallow::measure("nothing", nothing, MALLOW_THIS_THREAD);
    try {
        mallow::region region("scope");
        region.operations(3);
        std::string text(1000, 'x');
        throw std::runtime_error(text);
    } catch (const std::exception &) {
    }
    return numbers.size() == 100 ? 0 : 1;
}
