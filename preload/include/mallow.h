/*
 * Measured regions: what does this piece of a program allocate?
 *
 *     static long parse(void *document) { … return documents_parsed; }
 *     mallow_measure("parse", parse, document);
 *
 * runs `parse` once. Under `mallow test` it runs as often as the test wants, and each run is counted: allocations,
 * frees, bytes, file descriptors that stayed open. For code that is no function:
 *
 *     struct mallow_region region;
 *     mallow_begin(&region, "parse", MALLOW_WHOLE_PROCESS);
 *     …
 *     mallow_end(&region, documents_parsed);
 *
 * This header is all there is: nothing is linked. A program that runs without Mallow's library looks for it once, with
 * dlsym, and then pays a load and a jump for each call. With MALLOW_DISABLED defined there is not even that.
 *
 * Names are at most 127 bytes; longer ones are cut. Regions may nest and overlap.
 */
#ifndef MALLOW_H
#define MALLOW_H

#include <stddef.h>
#include <stdint.h>
#ifndef MALLOW_DISABLED
#include <dlfcn.h>
#endif

#ifdef __cplusplus
#include <type_traits>
extern "C" {
#endif

enum mallow_scope {
    MALLOW_WHOLE_PROCESS = 0, /* what all threads allocate. Begin and end wait until the other threads are quiet */
    MALLOW_THIS_THREAD = 1,   /* what the calling thread allocates. Begin and end on one thread */
};

/* A region under way. Its fields are the library's. */
struct mallow_region {
    const char *name;
    uint32_t scope;
    uint32_t state;
    uint64_t own[14];
};

/* The function that is measured returns how many operations it performed, or 0 to report no such count. */
typedef long (*mallow_function)(void *context);

/* What the library exports under the name MALLOW_API_SYMBOL. Later versions add members at the end. */
struct mallow_api {
    uint32_t bytes; /* size of this struct in the library */
    uint32_t version;
    void (*measure)(const char *name, mallow_function function, void *context, uint32_t scope);
    void (*begin)(struct mallow_region *region, const char *name, uint32_t scope);
    void (*end)(struct mallow_region *region, long operations);
    long (*operations)(long otherwise);
};

#define MALLOW_API_SYMBOL  "mallow_api_1"
#define MALLOW_API_VERSION 1

/* The library, or NULL where the program runs without it. */
static inline const struct mallow_api *mallow_library(void) {
#ifdef MALLOW_DISABLED
    return NULL;
#else
    static const struct mallow_api none = {0, 0, NULL, NULL, NULL, NULL};
    static const struct mallow_api *found;
    const struct mallow_api *api = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
    if (api == NULL) {
        /* RTLD_DEFAULT, which <dlfcn.h> does not always show */
#ifdef __APPLE__
        api = (const struct mallow_api *)dlsym((void *)(intptr_t)-2, MALLOW_API_SYMBOL);
#else
        api = (const struct mallow_api *)dlsym((void *)0, MALLOW_API_SYMBOL);
#endif
        if (api == NULL || api->version != MALLOW_API_VERSION || api->bytes < sizeof *api)
            api = &none;
        __atomic_store_n(&found, api, __ATOMIC_RELEASE);
    }
    return api == &none ? NULL : api;
#endif
}

/* Runs `function`: once, or, where `mallow test` says so, some times to warm up and then some times measured. */
static inline void mallow_measure_in(const char *name, mallow_function function, void *context, uint32_t scope) {
    const struct mallow_api *api = mallow_library();
    if (api != NULL)
        api->measure(name, function, context, scope);
    else
        (void)function(context);
}

static inline void mallow_measure(const char *name, mallow_function function, void *context) {
    mallow_measure_in(name, function, context, MALLOW_WHOLE_PROCESS);
}

/* Begins a measured run; `name` lives until its end. What the region counts is everything up to mallow_end. */
static inline void mallow_begin(struct mallow_region *region, const char *name, uint32_t scope) {
    const struct mallow_api *api = mallow_library();
    region->state = 0;
    if (api != NULL)
        api->begin(region, name, scope);
}

/* Ends it; `operations` as mallow_function returns them. */
static inline void mallow_end(struct mallow_region *region, long operations) {
    const struct mallow_api *api = mallow_library();
    if (api != NULL)
        api->end(region, operations);
}

/* How many operations the test wants a run to perform; `otherwise` where it does not say. */
static inline long mallow_operations(long otherwise) {
    const struct mallow_api *api = mallow_library();
    return api != NULL ? api->operations(otherwise) : otherwise;
}

#ifdef __cplusplus
}

/* C++ (C++11): the same with callables and scopes.
 *
 *     mallow::measure("parse", [&] { return parse(document); });
 *
 *     mallow::region region("parse");    // until the end of the scope
 *     region.operations(n);
 */
namespace mallow {

/* Runs `callable`, which returns how many operations it performed, or 0. See mallow_measure. */
template <class Callable>
void measure(const char *name, Callable &&callable, mallow_scope scope = MALLOW_WHOLE_PROCESS) {
    using Plain = typename std::remove_reference<Callable>::type;
    const auto call = [](void *context) -> long { return static_cast<long>((*static_cast<Plain *>(context))()); };
    mallow_measure_in(name, call, const_cast<void *>(static_cast<const void *>(&callable)), scope);
}

/* A measured run from its making to the end of its scope. `name` outlives it. */
class region {
  public:
    explicit region(const char *name, mallow_scope scope = MALLOW_WHOLE_PROCESS) {
        mallow_begin(&region_, name, scope);
    }
    ~region() {
        mallow_end(&region_, operations_);
    }
    region(const region &) = delete;
    region &operator=(const region &) = delete;

    void operations(long performed) {
        operations_ = performed;
    }

  private:
    mallow_region region_;
    long operations_ = 0;
};

} // namespace mallow
#endif

#endif
