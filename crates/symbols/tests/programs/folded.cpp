// What a linker leaves of functions that are the same (--icf=all): several names of one address. The aliases stand for its work, so
// that no particular linker is needed.
#include <cstdlib>

struct Row {
    long number;
};

template <class T> __attribute__((noinline)) void *grow(T *, unsigned long n) {
    return malloc(n * sizeof(T));
}

template void *grow<long>(long *, unsigned long);
// void *grow<Row>(Row *, unsigned long), and one of another family.
extern "C" __attribute__((alias("_Z4growIlEPvPT_m"))) void *_Z4growI3RowEPvPT_m(Row *, unsigned long);
extern "C" __attribute__((alias("_Z4growIlEPvPT_m"))) void *_ZN5Table6resizeEm(Row *, unsigned long);
// Aliases of C, which are one function with two names.
extern "C" void *take(unsigned long n) {
    return malloc(n + 1);
}
extern "C" __attribute__((alias("take"))) void *take_weakly(unsigned long);

// A constructor has two names that read the same.
struct Buffer {
    void *memory;
    Buffer(unsigned long n);
};
__attribute__((noinline)) Buffer::Buffer(unsigned long n) : memory(malloc(n + 2)) {}

int main() {
    long number = 0;
    Buffer buffer(7);
    return grow(&number, 9) == take(8) || buffer.memory == nullptr;
}
