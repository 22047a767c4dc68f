// stacks [SCALE]: deep stacks that change a little from one allocation to the next.
//
// A recursive-descent parser turns a formula into a tree, and a recursive evaluator works it out, SCALE times (default
// 100), each time for one of 64 formulas. Every grammar rule is a function of its own and nests through parentheses,
// so an allocation has about 34 frames; the ones near the root stay while the parser works on one part of the
// formula.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

struct Node {
    explicit Node(char kind) : kind(kind) {}

    char kind; // + * - ( for calls of a function, v for variables, n for numbers
    uint64_t number = 0;
    uint64_t fingerprint = 0; // of a call's arguments, as written
    std::string name;
    std::vector<std::unique_ptr<Node>> children;
};

using Tree = std::unique_ptr<Node>;
using Symbols = std::map<std::string, uint64_t>;

const unsigned kFormulas = 64;

// A linear congruential generator: the same formula on every machine.
class Dice {
  public:
    unsigned roll(unsigned sides) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<unsigned>(state_ >> 33) % sides;
    }

  private:
    uint64_t state_ = 42;
};

// One of 676 names, longer than a std::string holds without allocating.
std::string any_name(Dice &dice) {
    std::string name = "temperature_of_sensor_";
    name += static_cast<char>('a' + dice.roll(26));
    name += static_cast<char>('a' + dice.roll(26));
    return name;
}

void write_formula(std::string &out, Dice &dice, int depth) {
    if (depth == 0) {
        if (dice.roll(4) == 0)
            out += std::to_string(dice.roll(1000));
        else
            out += any_name(dice);
        return;
    }
    // One long arm and some short ones: most of the formula is deep.
    int arms = 1 + static_cast<int>(dice.roll(3));
    for (int arm = 0; arm < arms; arm++) {
        if (arm > 0)
            out += "+*-"[dice.roll(3)];
        out += dice.roll(3) == 0 ? "maximum_of_the_values(" : "(";
        write_formula(out, dice, depth - 1);
        out += ')';
    }
}

uint64_t fingerprint(const char *begin, const char *end) {
    uint64_t hash = 14695981039346656037u;
    for (const char *at = begin; at < end; at++)
        hash = (hash ^ static_cast<unsigned char>(*at)) * 1099511628211u;
    return hash;
}

class Parser {
  public:
    Parser(const std::string &text, Symbols &symbols) : at_(text.c_str()), symbols_(symbols) {}

    __attribute__((noinline)) Tree sum() {
        Tree left = product();
        while (*at_ == '+' || *at_ == '-') {
            char kind = *at_++;
            left = join(kind, std::move(left), product());
        }
        return left;
    }

  private:
    __attribute__((noinline)) Tree product() {
        Tree left = atom();
        while (*at_ == '*') {
            at_++;
            left = join('*', std::move(left), atom());
        }
        return left;
    }

    __attribute__((noinline)) Tree atom() {
        if (*at_ == '(')
            return parentheses();
        if (*at_ >= '0' && *at_ <= '9')
            return number();
        return word();
    }

    __attribute__((noinline)) Tree parentheses() {
        at_++;
        Tree inner = sum();
        at_++;
        return inner;
    }

    __attribute__((noinline)) Tree number() {
        auto node = std::make_unique<Node>('n');
        while (*at_ >= '0' && *at_ <= '9')
            node->number = node->number * 10 + static_cast<uint64_t>(*at_++ - '0');
        return node;
    }

    __attribute__((noinline)) Tree word() {
        const char *begin = at_;
        while (*at_ == '_' || (*at_ >= 'a' && *at_ <= 'z'))
            at_++;
        std::string name(begin, at_);
        symbols_[name]++;
        if (*at_ == '(')
            return call(std::move(name));
        auto node = std::make_unique<Node>('v');
        node->name = std::move(name);
        return node;
    }

    __attribute__((noinline)) Tree call(std::string name) {
        auto node = std::make_unique<Node>('(');
        node->name = std::move(name);
        const char *begin = at_;
        node->children.push_back(parentheses());
        node->fingerprint = fingerprint(begin, at_);
        return node;
    }

    static Tree join(char kind, Tree left, Tree right) {
        auto node = std::make_unique<Node>(kind);
        node->children.push_back(std::move(left));
        node->children.push_back(std::move(right));
        return node;
    }

    const char *at_;
    Symbols &symbols_;
};

class Evaluator {
  public:
    explicit Evaluator(const Symbols &symbols) : symbols_(symbols) {}

    // The largest result of each function, by its name.
    Symbols results;

    __attribute__((noinline)) uint64_t value(const Node &node) {
        switch (node.kind) {
        case 'n':
            return node.number;
        case 'v':
            return variable(node.name);
        case '(':
            return call(node);
        default:
            return operation(node);
        }
    }

  private:
    __attribute__((noinline)) uint64_t variable(std::string name) {
        return symbols_.at(name) + name.size();
    }

    __attribute__((noinline)) std::vector<uint64_t> values(const Node &node) {
        std::vector<uint64_t> result;
        for (const Tree &child : node.children)
            result.push_back(value(*child));
        return result;
    }

    __attribute__((noinline)) uint64_t call(const Node &node) {
        uint64_t largest = 0;
        for (uint64_t v : values(node))
            largest = v > largest ? v : largest;
        uint64_t &known = results[node.name];
        known = largest > known ? largest : known;
        return largest;
    }

    __attribute__((noinline)) uint64_t operation(const Node &node) {
        std::vector<uint64_t> v = values(node);
        switch (node.kind) {
        case '+':
            return v[0] + v[1];
        case '-':
            return v[0] - v[1];
        default:
            return v[0] * v[1];
        }
    }

    const Symbols &symbols_;
};

} // namespace

int main(int argc, char **argv) {
    long scale = argc > 1 ? std::atol(argv[1]) : 100;
    if (scale < 1) {
        std::fprintf(stderr, "usage: stacks [SCALE]\n");
        return 2;
    }
    Dice dice;
    std::vector<std::string> formulas(kFormulas);
    for (std::string &formula : formulas)
        write_formula(formula, dice, 8);
    Symbols symbols;
    size_t characters = 0;
    uint64_t sum = 0;
    std::vector<Tree> latest(64);
    for (long round = 0; round < scale; round++) {
        const std::string &formula = formulas[dice.roll(kFormulas)];
        characters += formula.size();
        Tree &tree = latest[static_cast<size_t>(round) % latest.size()];
        tree = Parser(formula, symbols).sum();
        Evaluator evaluator(symbols);
        sum += evaluator.value(*tree) + evaluator.results.size() + tree->fingerprint;
    }
    std::printf("%ld formulas, %zu characters, %zu names, result %llu\n", scale, characters, symbols.size(),
                static_cast<unsigned long long>(sum));
    return 0;
}
