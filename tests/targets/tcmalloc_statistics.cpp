/*
 * A container of containers with tcmalloc inside, linked statically. Prints how many bytes of main's blocks are live by tcmalloc's own
 * statistics, and ends at once. Argument `sizes`: prints how large the blocks are, together, that tcmalloc makes of the sizes it reads.
 */
#include <gperftools/malloc_extension.h>
#include <gperftools/tcmalloc.h>

#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include "target.h"

static size_t live() {
    size_t bytes = 0;
    CHECK(MallocExtension::instance()->GetNumericProperty("generic.current_allocated_bytes", &bytes));
    return bytes;
}

static int print_sizes() {
    size_t all = 0;
    for (size_t size; scanf("%zu", &size) == 1;) {
        void *block = tc_malloc(size);
        all += tc_malloc_size(block);
        tc_free(block);
    }
    say("%zu\n", all);
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "sizes") == 0)
        return print_sizes();
    size_t before = live();
    std::map<std::string, std::vector<std::string>> places;
    for (int i = 0; i < 20000; i++)
        places["the place number " + std::to_string(i * 7919 % 1009)].push_back(std::string(i % 300, 'x'));
    for (int i = 0; i < 1009; i += 3)
        places.erase("the place number " + std::to_string(i));
    void *large = keep(malloc(3000000)), *moved = keep(realloc(malloc(100), 70000)),
         *aligned = keep(tc_memalign(256, 1000));
    say("%zu bytes\n", live() - before);
    CHECK(large != nullptr && moved != nullptr && aligned != nullptr);
    _exit(0);
}
