// A program after it was changed: tests/end_to_end/diff_regressions.rs describes the change.
#include <string>
#include <vector>

#include "records.h"

static void keep(const void *block) {
    asm volatile("" : : "r"(block) : "memory");
}

__attribute__((noinline)) static std::size_t read_row(int number) {
    std::string text(100 + number % 5, 'x');
    keep(text.data());
    return text.size();
}

__attribute__((noinline)) static std::size_t build_index(int rows) {
    std::vector<int> index;
    for (int i = 0; i < rows; i++)
        index.push_back(i);
    keep(index.data());
    return index.size();
}

__attribute__((noinline)) static std::size_t sum(std::vector<int> values) {
    keep(values.data());
    return values.size();
}

int main() {
    std::size_t total = 0;
    std::vector<int> values(300);
    for (int i = 0; i < 500; i++) {
        total += read_row(i) + format_row(i).size();
        total += build_index(1000) + sum(values);
    }
    return total == 0;
}
