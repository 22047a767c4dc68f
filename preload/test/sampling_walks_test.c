/* Stacks of samples that look as the last one, and are not. */
#include "samples.h"
#include "test.h"

#include <alloca.h>
#include <dlfcn.h>
#include <sys/mman.h>

static struct reading reading;

static const struct image *run(const char *scenario, uint64_t period) {
    samples_make(&reading, period);
    reading_start(&reading, scenario, NULL);
    reading_finish(&reading);
    CHECK(reading.status == 0);
    return reading_only(&reading);
}

static void keep(volatile void *memory) {
    __asm__ volatile("" : : "r"(memory) : "memory");
}

/* ---- the frame pointer ---- */

#define SHIFT 512

static struct {
    char *sp, *frame;
    void *volatile *left_behind; /* where the return address was */
    void *return_address;
} seen[2];

/* Both calls allocate with the same sp, and leave what they were in their stacks untouched. */
static __attribute__((noinline)) void allocating(unsigned number, size_t room) {
    char *sp = alloca(room);
    keep(sp);
    seen[number].sp = sp;
    seen[number].frame = __builtin_frame_address(0);
    seen[number].left_behind = (void *volatile *)seen[number].frame + 1;
    seen[number].return_address = *seen[number].left_behind;
    keep(malloc(3000));
}

static __attribute__((noinline)) void caller(unsigned number) {
    char room[64];
    keep(room);
    allocating(number, SHIFT + 64);
    keep(room);
}

static __attribute__((noinline)) void other_caller(unsigned number) {
    char room[64 + SHIFT];
    keep(room);
    allocating(number, 64);
    keep(room);
}

SCENARIO(the_frame_pointer_alone_differs) {
    static void (*const callers[])(unsigned) = {caller, other_caller};
    for (volatile unsigned i = 0; i < 2; i++)
        callers[i](i);
    CHECK(seen[0].sp == seen[1].sp && seen[0].frame == seen[1].frame + SHIFT);
    CHECK(*seen[0].left_behind == seen[0].return_address && seen[0].return_address != seen[1].return_address);
}

static uint64_t return_address(const struct mallow_stack *stack, unsigned frame) {
    CHECK(stack->depth > frame);
    return stack->pc[stack->depth - 1 - frame];
}

TEST(a_stack_is_another_one_where_the_frame_pointer_alone_differs) {
    const struct image *image = run("the_frame_pointer_alone_differs", 1);
    CHECK(samples_live(image) == 2);
    const struct mallow_stack *first = sample_stack(image, sample_live(image, 0)->stack);
    const struct mallow_stack *second = sample_stack(image, sample_live(image, 1)->stack);
    CHECK(return_address(first, 0) == return_address(second, 0));
    CHECK(return_address(first, 1) - (uint64_t)caller < 100);
    CHECK(return_address(second, 1) - (uint64_t)other_caller < 100);
    CHECK(return_address(first, 1) != return_address(second, 1));
}

/* ---- code of an interpreter that consists of one call ---- */

static void allocate_from_code(void) {
    keep(malloc(3000));
}

/* CPython's two of them, without a frame pointer and with one; each calls what rcx points to. */
static const uint8_t trampoline_code[][16] = {
    {0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3},
    {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3},
};

extern const char trampoline_returned[];

static __attribute__((noinline, noclone)) void call_trampoline(const uint8_t *code) {
    char room[64];
    keep(room);
    void (*called)(void) = allocate_from_code;
    __asm__ volatile("call *%0\n\t.globl trampoline_returned\ntrampoline_returned:"
                     : "+r"(code), "+c"(called)
                     :
                     : "rax", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
    keep(room);
}

/* Near the program: without tables, frame pointers are followed to code that is not far away. */
SCENARIO(scripts_call_through_trampolines) {
    uint8_t *code =
        mmap((void *)0x8000000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    code += 64;
    memcpy(code, trampoline_code, sizeof trampoline_code);
    for (volatile unsigned i = 0; i < 2; i++)
        call_trampoline(code + 16 * i);
}

TEST(callers_of_a_trampoline_are_found) {
    const struct image *image = run("scripts_call_through_trampolines", 1);
    CHECK(samples_live(image) == 2);
    for (unsigned i = 0; i < 2; i++) {
        const struct mallow_stack *stack = sample_stack(image, sample_live(image, i)->stack);
        CHECK((return_address(stack, 1) & 4095) == 64 + 16 * i + 6);
        CHECK(return_address(stack, 2) == (uint64_t)trampoline_returned);
    }
}

/* push %rbp; mov %rsp, %rbp; call *%rdi or *%rsi; pop %rbp; ret */
static const uint8_t calls_first_code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
static const uint8_t calls_second_code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3};

#define NEAR_CODE 0x8000000ull
#define FAR_CODE  (NEAR_CODE + (400ull << 20))
#define CODE_AT   64

static void *generate(uint64_t at, const void *code, size_t bytes) {
    void *page = mmap((void *)at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page == (void *)at);
    return memcpy((uint8_t *)page + CODE_AT, code, bytes);
}

/* As far apart as V8's builtins and what it compiles may be. */
SCENARIO(generated_code_calls_across_its_range) {
    void *near_code = generate(NEAR_CODE, calls_second_code, sizeof calls_second_code);
    void *far_code = generate(FAR_CODE, calls_first_code, sizeof calls_first_code);
    ((void (*)(void *, void (*)(void)))(uint64_t)far_code)(near_code, allocate_from_code);
}

TEST(callers_in_generated_code_are_found_across_its_range) {
    const struct image *image = run("generated_code_calls_across_its_range", 1);
    CHECK(samples_live(image) == 1);
    const struct mallow_stack *stack = sample_stack(image, sample_live(image, 0)->stack);
    CHECK(return_address(stack, 1) == NEAR_CODE + CODE_AT + 6);
    CHECK(return_address(stack, 2) == FAR_CODE + CODE_AT + 6);
}

/* ---- libraries that take each other's place ---- */

#define LARGE (16u << 20)

static const char *plugin(unsigned number) {
    return getenv(number == 0 ? "TEST_PLUGIN" : "TEST_OTHER_PLUGIN");
}

/* The second one lies where the first one was, and calls malloc from the same address. What the dynamic linker itself
 * allocates is small beside the period. */
SCENARIO(plugins_take_turns) {
    void *before = NULL;
    for (volatile unsigned i = 0; i < 2; i++) {
        void *handle = dlopen(plugin(i), RTLD_NOW), *symbol = dlsym(handle, "allocate");
        CHECK(symbol != NULL && (before == NULL || before == symbol));
        before = symbol;
        void *(*allocate)(size_t);
        memcpy(&allocate, &symbol, sizeof symbol);
        keep(allocate(LARGE));
        CHECK(dlclose(handle) == 0);
    }
}

/* The file that its innermost frame lay in when the stack was walked. */
static const char *module_of(const struct image *image, const struct mallow_stack *stack) {
    uint64_t pc = stack->pc[stack->depth - 1];
    const char *path = "";
    for (uint32_t i = 0; i < image->process->modules; i++) {
        const struct mallow_module *module = &image->modules[i];
        if (module->start <= pc && pc < module->end && module->generation <= stack->generation)
            path = module->path; /* a later one took the place of those before */
    }
    return path;
}

TEST(a_library_in_the_place_of_another_is_not_taken_for_it) {
    const struct image *image = run("plugins_take_turns", 1 << 20);
    unsigned found = 0;
    for (uint32_t i = 0; i < samples_live(image); i++) {
        const struct mallow_slot *sample = sample_live(image, i);
        if (sample->size == LARGE)
            CHECK_TEXT(module_of(image, sample_stack(image, sample->stack)), plugin(found++));
    }
    CHECK(found == 2);
}
