// A task of Swift: body awaits handle, which awaits one of the functions of async_functions.S and async_library.S.
//
//   async            each function with its contexts
//   async hostile    what looks like a context and is none

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE       4096
#define COUNT(all) (sizeof(all) / sizeof(all)[0])

struct context {
    const void *caller;
    void (*resume)(void);
    uint64_t room[2];
};

void run(const void *context, void (*function)(void));
void plain(void), moved(void), spilled(void), framed(void), passing(void), marked(void);
void handle_resumed(void), body_resumed(void), end_task(void), lone(void), lone_marked(void);
extern void (*const library_parts[2])(void);

// What they allocate with: it uses the registers that contexts are kept in.
__attribute__((noinline)) void decode(size_t size) {
    void *block = malloc(size);
    __asm__ volatile("" : : "r"(block) : "memory", "rbx", "r12", "r13", "r14", "r15");
    free(block);
    __asm__ volatile("" : : : "memory");
}

static void await(void (*function)(void), void (*handle)(void)) {
    struct context *contexts = malloc(3 * sizeof *contexts);
    contexts[0] = (struct context){.resume = end_task};
    contexts[1] = (struct context){.caller = &contexts[0], .resume = body_resumed};
    contexts[2] = (struct context){.caller = &contexts[1], .resume = handle};
    run(&contexts[2], function);
    free(contexts);
}

// It keeps a frame pointer, by which its caller is found.
__attribute__((noinline, optimize("no-omit-frame-pointer"))) static void try_context(const void *context) {
    void *volatile here = __builtin_frame_address(0);
    run(context, lone);
    run(context, lone_marked);
    (void)here;
}

static void be_hostile(void) {
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *gone = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || gone == MAP_FAILED || munmap(gone, PAGE) != 0 ||
        mprotect(pages + PAGE, PAGE, PROT_NONE) != 0)
        exit(1);
    const char *last_word = pages + PAGE - 8;
    static const struct context first = {.resume = end_task};
    static struct context cycle[3], itself = {&itself, handle_resumed, {0}};
    for (size_t i = 0; i < COUNT(cycle); i++)
        cycle[i] = (struct context){&cycle[(i + 1) % COUNT(cycle)], handle_resumed, {0}};
    const uintptr_t resumed = (uintptr_t)handle_resumed;
    const struct context wrong_contexts[] = {
        {gone, handle_resumed, {0}},
        {last_word, handle_resumed, {0}},
        {&cycle[1], handle_resumed, {0}},
        {(const char *)&first + 1, handle_resumed, {0}},
        {&first, NULL, {0}},
        {&first, (void (*)(void))(uintptr_t)&first, {0}},
        {&first, (void (*)(void))(resumed + 8), {0}},
        {&first, (void (*)(void))(resumed + 1), {0}},
        {&first, (void (*)(void))0xdeadbeefdead, {0}},
        {NULL, NULL, {0}},
        {NULL, (void (*)(void))gone, {0}},
    };
    const uintptr_t wrong_addresses[] = {0, 7, 8, 4088, -8ull, -16ull, 1ull << 47, 1ull << 63, 0xffffffff81000000};
    const void *const wrong_pointers[] = {gone, pages + PAGE, last_word, &itself, cycle};
    for (size_t i = 0; i < COUNT(wrong_contexts); i++)
        try_context(&wrong_contexts[i]);
    for (size_t i = 0; i < COUNT(wrong_addresses); i++)
        try_context((const void *)wrong_addresses[i]);
    for (size_t i = 0; i < COUNT(wrong_pointers); i++)
        try_context(wrong_pointers[i]);
    static struct context deep[20000];
    for (size_t i = 0; i < COUNT(deep); i++)
        deep[i] = (struct context){i > 0 ? &deep[i - 1] : &first, handle_resumed, {0}};
    run(&deep[COUNT(deep) - 1], lone);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "hostile") == 0) {
        be_hostile();
        return 0;
    }
    void (*const all[])(void) = {plain, moved, spilled, framed, passing, marked, library_parts[0]};
    for (size_t i = 0; i < COUNT(all); i++)
        await(all[i], handle_resumed);
    await(plain, library_parts[1]);
    return 0;
}
