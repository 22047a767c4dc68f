/* tcmalloc inside, linked statically: exceptions leave its operator new. Prints how many calls it made. */
#include <new>
#include <vector>

#include "target.h"

static unsigned long long allocations, frees;

__attribute__((noinline)) static void one(size_t size) {
    void *block = ::operator new(size);
    memset(keep(block), 1, size);
    ::operator delete(block);
    allocations++, frees++;
}

int main() {
    for (int i = 0; i < 200; i++) {
        one(16 + i * 7);
        try {
            keep(::operator new(static_cast<size_t>(-1) / 4));
            CHECK(0);
        } catch (const std::bad_alloc &) {
        }
        int *many = new int[100 + i];
        delete[] static_cast<int *>(keep(many));
        free(keep(malloc(50)));
        allocations += 2, frees += 2;
    }
    say("%llu allocations %llu frees\n", allocations, frees);
    return 0;
}
