/*
 * operator new and operator delete of libstdc++, replaced at the start of an image: malloc and free do not see whether
 * they called them. Those of libstdc++ often end with jumps to each other and to free, so no stack shows it either.
 *
 * These do what those of libstdc++ do (libstdc++-v3/libsupc++/new_op.cc, new_opa.cc, del_op.cc). A program may replace
 * some of them, and libstdc++'s own call that one then: where any is replaced, all stay as they are. The four that do
 * not throw call the others, and stay.
 */
#include "guard/operators.h"
#include "hook/stubs.h"
#include "sample/sample.h"
#include "walk/modules.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

enum { ENDBR64 = 4 };

/* What libstdc++ exports beside the operators. */
static void (*(*get_new_handler)(void))(void);
static void (*throw_bad_alloc)(void);
static uint64_t runtime_start, runtime_end;

/* As libstdc++: an alignment is that of a pointer at least. 0: there is none. */
static inline size_t at_least_pointer(size_t alignment) {
    return alignment != 0 && alignment < sizeof(void *) ? sizeof(void *) : alignment;
}

/* Of an alignment, as wire_guard.h has it. */
static inline uint8_t logarithm(size_t alignment) {
    return alignment != 0 ? (uint8_t)(__builtin_ctzl(at_least_pointer(alignment)) + 1) : 0;
}

static inline ALWAYS_INLINE void *new_of(size_t size, size_t alignment, enum mallow_operation operation,
                                         struct caller caller) {
    if (operation == MALLOW_OPERATION_NEW && caller_pc(caller) - runtime_start < runtime_end - runtime_start)
        operation = MALLOW_OPERATION_NEW_EITHER;
    for (;;) {
        void *block = guard_operator_new(size, at_least_pointer(alignment), operation, caller);
        if (LIKELY(block != NULL))
            return block;
        void (*handler)(void) = get_new_handler();
        if (handler == NULL)
            throw_bad_alloc();
        handler();
    }
}

static void *new_one(size_t size) {
    return new_of(size, 0, MALLOW_OPERATION_NEW, CALLER);
}

static void *new_array(size_t size) {
    return new_of(size, 0, MALLOW_OPERATION_NEW_ARRAY, CALLER);
}

static void *new_aligned(size_t size, size_t alignment) {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0)
        throw_bad_alloc();
    return new_of(size, alignment, MALLOW_OPERATION_NEW, CALLER);
}

static void *new_array_aligned(size_t size, size_t alignment) {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0)
        throw_bad_alloc();
    return new_of(size, alignment, MALLOW_OPERATION_NEW_ARRAY, CALLER);
}

#define DELETES(X)                                                                                                     \
    X(delete_one, (void *block), MALLOW_FREEING_DELETE, 0, 0, 0)                                                       \
    X(delete_sized, (void *block, size_t size), MALLOW_FREEING_DELETE, 0, 1, size)                                     \
    X(delete_aligned, (void *block, size_t alignment), MALLOW_FREEING_DELETE, alignment, 0, 0)                         \
    X(delete_both, (void *block, size_t size, size_t alignment), MALLOW_FREEING_DELETE, alignment, 1, size)            \
    X(delete_array, (void *block), MALLOW_FREEING_DELETE_ARRAY, 0, 0, 0)                                               \
    X(delete_array_sized, (void *block, size_t size), MALLOW_FREEING_DELETE_ARRAY, 0, 1, size)                         \
    X(delete_array_aligned, (void *block, size_t alignment), MALLOW_FREEING_DELETE_ARRAY, alignment, 0, 0)             \
    X(delete_array_both, (void *block, size_t size, size_t alignment), MALLOW_FREEING_DELETE_ARRAY, alignment, 1, size)

#define X(name, parameters, kind, alignment, has_size, size)                                                           \
    static void name parameters {                                                                                      \
        guard_operator_delete(block, (struct freeing){kind, logarithm(alignment), has_size, size}, CALLER);            \
    }
DELETES(X)
#undef X

/* The first, and the last of those that are not replaced. */
static const struct {
    const char *name;
    const void *function; /* NULL: it stays */
} operators[] = {
    {"_Znwm", new_one},
    {"_Znam", new_array},
    {"_ZnwmSt11align_val_t", new_aligned},
    {"_ZnamSt11align_val_t", new_array_aligned},
    {"_ZdlPv", delete_one},
    {"_ZdlPvm", delete_sized},
    {"_ZdlPvSt11align_val_t", delete_aligned},
    {"_ZdlPvmSt11align_val_t", delete_both},
    {"_ZdlPvRKSt9nothrow_t", delete_one},
    {"_ZdlPvSt11align_val_tRKSt9nothrow_t", delete_aligned},
    {"_ZdaPv", delete_array},
    {"_ZdaPvm", delete_array_sized},
    {"_ZdaPvSt11align_val_t", delete_array_aligned},
    {"_ZdaPvmSt11align_val_t", delete_array_both},
    {"_ZdaPvRKSt9nothrow_t", delete_array},
    {"_ZdaPvSt11align_val_tRKSt9nothrow_t", delete_array_aligned},
    {"_ZnwmRKSt9nothrow_t", NULL},
    {"_ZnamRKSt9nothrow_t", NULL},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", NULL},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", NULL},
};
#define OPERATORS (sizeof operators / sizeof *operators)

static void *in_runtime(const char *name, const Dl_info *runtime) {
    Dl_info info;
    void *found = dlsym(RTLD_DEFAULT, name);
    return found != NULL && dladdr(found, &info) != 0 && info.dli_fbase == runtime->dli_fbase ? found : NULL;
}

static int is_known_before(const struct mallow_write *writes, uint32_t count, uint64_t at) {
    while (count-- > 0)
        if (writes[count].at == at)
            return 1;
    return 0;
}

/* All of these operators lead here, or none. */
static enum mallow_operators replace(const Dl_info *runtime) {
    struct {
        struct mallow_patches head;
        struct mallow_write writes[OPERATORS];
    } patch = {{.writes = 0}, {{0}}};
    for (size_t i = 0; i < OPERATORS; i++) {
        const char *at = in_runtime(operators[i].name, runtime);
        if (at == NULL && dlsym(RTLD_DEFAULT, operators[i].name) != NULL)
            return MALLOW_OPERATORS_REPLACED;
        if (at == NULL || operators[i].function == NULL) /* an old libstdc++ knows no alignments */
            continue;
        at += memcmp(at, "\xf3\x0f\x1e\xfa", ENDBR64) == 0 ? ENDBR64 : 0;
        struct mallow_write *write = &patch.writes[patch.head.writes];
        int64_t distance = (int64_t)operators[i].function - (int64_t)(at + 5);
        if (is_known_before(patch.writes, patch.head.writes, (uint64_t)at) || distance != (int32_t)distance)
            return MALLOW_OPERATORS_UNFIT;
        write->at = (uint64_t)at;
        memcpy(write->before, at, 5);
        write->after[0] = 0xe9;
        memcpy(write->after + 1, &distance, 4);
        patch.head.writes++;
    }
    return patches_write(&patch.head, 1) == 0 ? MALLOW_OPERATORS_SEEN : MALLOW_OPERATORS_UNFIT;
}

static int is_runtime(struct dl_phdr_info *info, size_t bytes, void *unused) {
    (void)bytes, (void)unused;
    return info->dlpi_name != NULL &&
           (strstr(info->dlpi_name, "/libstdc++.so") != NULL || strstr(info->dlpi_name, "/libc++") != NULL);
}

static enum mallow_operators find_operators(void) {
    Dl_info runtime;
    /* dlsym allocates what dlerror says of a name that is nowhere: an allocation that the program does not make. */
    if (dl_iterate_phdr(is_runtime, NULL) == 0)
        return MALLOW_OPERATORS_NONE;
    void *first = dlsym(RTLD_DEFAULT, operators[0].name);
    if (first == NULL)
        return MALLOW_OPERATORS_NONE;
    if (dladdr(first, &runtime) == 0 || runtime.dli_fname == NULL || strstr(runtime.dli_fname, "/libstdc++.so") == NULL)
        return MALLOW_OPERATORS_REPLACED;
    void *handler = in_runtime("_ZSt15get_new_handlerv", &runtime);
    void *thrower = in_runtime("_ZSt17__throw_bad_allocv", &runtime);
    const struct module *module = module_known((uint64_t)first);
    if (handler == NULL || thrower == NULL || module == NULL)
        return MALLOW_OPERATORS_UNFIT;
    memcpy(&get_new_handler, &handler, sizeof handler);
    memcpy(&throw_bad_alloc, &thrower, sizeof thrower);
    runtime_start = module->start;
    runtime_end = module->end;
    return replace(&runtime);
}

/* After allocators inside, and before the constructors of the executable. */
__attribute__((constructor(103))) static void replace_operators(void) {
    if (target.control == NULL || !guarding_is_wanted())
        return;
    mismatch_operators = find_operators();
    if (guard_has_part())
        guard_shared->operators = mismatch_operators;
}
