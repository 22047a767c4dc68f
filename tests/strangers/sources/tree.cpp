#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>
template <class T> struct Tree {
    std::map<T, std::unique_ptr<Tree>> below;
    void add(const std::vector<T> &p) {
        Tree *t = this;
        for (auto &x : p) {
            auto &n = t->below[x];
            if (!n)
                n = std::make_unique<Tree>();
            t = n.get();
        }
    }
};
int main() {
    Tree<std::string> t;
    std::string line;
    std::unordered_map<std::string, int> counts;
    std::regex word("[a-z]+");
    while (std::getline(std::cin, line)) {
        std::vector<std::string> p;
        for (std::sregex_iterator i(line.begin(), line.end(), word), e; i != e; ++i) {
            p.push_back(i->str());
            counts[i->str()]++;
        }
        t.add(p);
    }
    std::cout << counts.size() << "\n";
}
