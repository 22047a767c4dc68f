/* build: -std=c++17 -fno-builtin */
// exact_new CASE ROUNDS: one form of operator new and delete, ROUNDS times. The truth is what the program asked for;
// libstdc++ asks for one byte instead of none, and rounds aligned sizes up to their alignment.
#include "target.h"
#include <new>

static unsigned long long allocations, bytes, frees;

static void *made(void *block, std::size_t size) {
    CHECK(block);
    allocations++;
    bytes += size;
    return keep(block);
}

struct alignas(128) Wide {
    char payload[200];
};
struct Throws {
    char payload[48];
    Throws() {
        throw 1;
    }
};

int main(int count, char **arguments) {
    CHECK(count == 3);
    const char *name = arguments[1];
    auto is = [&](const char *wanted) { return !strcmp(name, wanted); };
    volatile std::size_t huge = std::size_t(1) << 62;
    for (std::size_t i = 0, rounds = std::size_t(atol(arguments[2])); i < rounds; i++) {
        std::size_t size = i % 500 + 1;
        if (is("new")) {
            ::operator delete(made(::operator new(size), size));
            frees++;
        } else if (is("new_zero")) {
            ::operator delete(made(::operator new(0), 1));
            frees++;
        } else if (is("new_array")) {
            auto *block = static_cast<int *>(made(new int[size], size * sizeof(int)));
            delete[] block;
            frees++;
        } else if (is("nothrow")) {
            ::operator delete(made(::operator new(size, std::nothrow), size), std::nothrow);
            ::operator delete[](made(::operator new[](size, std::nothrow), size), std::nothrow);
            frees += 2;
        } else if (is("huge")) {
            try {
                keep(::operator new(huge));
                return 3;
            } catch (const std::bad_alloc &) {
            }
        } else if (is("nothrow_huge")) {
            // libstdc++ throws std::bad_alloc inside, with the header of 128 bytes that every exception has.
            CHECK(!::operator new(huge, std::nothrow));
            allocations++;
            bytes += 128 + sizeof(std::bad_alloc);
            frees++;
        } else if (is("sized")) {
            ::operator delete(made(::operator new(size), size), size);
            ::operator delete[](made(::operator new[](size), size), size);
            frees += 2;
        } else if (is("aligned")) {
            auto *wide = static_cast<Wide *>(made(new Wide, sizeof(Wide)));
            CHECK(reinterpret_cast<uintptr_t>(wide) % 128 == 0);
            delete wide;
            auto *wides = static_cast<Wide *>(made(new Wide[3], 3 * sizeof(Wide)));
            CHECK(reinterpret_cast<uintptr_t>(wides) % 128 == 0);
            delete[] wides;
            void *block = made(::operator new(100, std::align_val_t(64), std::nothrow), 128);
            CHECK(reinterpret_cast<uintptr_t>(block) % 64 == 0);
            ::operator delete(block, std::align_val_t(64), std::nothrow);
            frees += 3;
        } else if (is("placement")) {
            alignas(int) char room[sizeof(int)];
            int *number = new (room) int(7);
            CHECK(*static_cast<int *>(keep(number)) == 7);
        } else if (is("constructor_throws")) {
            // The block, then the exception object with its header of 128 bytes.
            try {
                delete new Throws;
                CHECK(false);
            } catch (int) {
                allocations += 2;
                bytes += sizeof(Throws) + 128 + sizeof(int);
                frees += 2;
            }
        } else {
            CHECK(!"a case");
        }
    }
    say("{\"family\":\"%s\",\"allocations\":%llu,\"allocated_bytes\":%llu,\"frees\":%llu,\"realloc_frees\":0,"
        "\"reallocs_in_place\":0,\"reallocs_moved\":0}\n",
        is("aligned") ? "aligned_alloc" : "malloc", allocations, bytes, frees);
}
