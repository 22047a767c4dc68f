// A program before it was changed: tests/end_to_end/diff_regressions.rs describes the change.
#include <string>
#include <vector>

#include "rows.h"

static void keep(const void *block) {
    asm volatile("" : : "r"(block) : "memory");
}

__attribute__((noinline)) static std::size_t parse_row(int number) {
    std::string text(100 + number % 5, 'x');
    keep(text.data());
    return text.size();
}

__attribute__((noinline)) static std::size_t build_index(int rows) {
    std::vector<int> index;
    index.reserve(rows);
    for (int i = 0; i < rows; i++)
        index.push_back(i);
    keep(index.data());
    return index.size();
}

__attribute__((noinline)) static std::size_t sum(const std::vector<int> &values) {
    keep(values.data());
    return values.size();
}

int main() {
    std::size_t total = 0;
    std::vector<int> values(300);
    for (int i = 0; i < 500; i++) {
        total += parse_row(i) + format_row(i).size();
        total += build_index(1000) + sum(values);
    }
    return total == 0;
}
