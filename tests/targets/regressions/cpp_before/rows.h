// Reads and writes rows.
#include <string>

__attribute__((noinline)) static std::string format_row(int number) {
    return std::string(40 + number % 3, 'r');
}
