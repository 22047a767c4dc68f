/* A program with operators of its own, which call malloc and free, and with mismatches that no other sees, then. build: -w */
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

#ifndef NONE
void *operator new(size_t size) {
    return malloc(size);
}
void operator delete(void *at) noexcept {
    free(at);
}
#endif

int main() {
    free(new int(3));
    delete static_cast<int *>(malloc(4));
    std::string text(100, 'x');
    puts(text.size() == 100 ? "went on" : "wrong");
}
