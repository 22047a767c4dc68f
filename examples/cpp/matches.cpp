// A small file that gives the compiler much to do: <regex> is one of the largest headers of the standard library.
#include <regex>
#include <string>

bool matches(const std::string &text) {
    return std::regex_match(text, std::regex("(a|b)*c[0-9]+"));
}
