/*
 * The exported functions: each is one jump. The return address on the stack stays the caller's, so that a policy
 * unwinds from the caller itself.
 */
#include "entries.h"

#define EXPORT __attribute__((visibility("default")))

#define X(name, result, parameters, arguments)                                                                         \
    EXPORT result name parameters {                                                                                    \
        return hook.name arguments;                                                                                    \
    }
MALLOW_ENTRIES(X)
#undef X

void hooks_install(const struct hooks *set) {
#define X(name, result, parameters, arguments) __atomic_store_n(&hook.name, set->name, __ATOMIC_RELEASE);
    MALLOW_ENTRIES(X)
#undef X
}
