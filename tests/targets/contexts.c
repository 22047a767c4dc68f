/* Stacks that the program switches itself: makecontext and swapcontext on heap and mapped stacks, each with a stack
 * of its own depth, in turns, from several threads; and a switch by hand in assembly, with no table for its frames. */
#include "target.h"
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { CONTEXTS = 50, STACK = 64 << 10, TURNS = 40 };
struct set {
    ucontext_t scheduler, context[CONTEXTS];
    void *stack[CONTEXTS];
    uint64_t sum;
};
static __thread struct set *set;
static __thread int current;

__attribute__((noinline)) static void recurse(int depth) {
    char *block = malloc((size_t)depth * 8 + 1);
    block[0] = (char)depth;
    swapcontext(&set->context[current], &set->scheduler);
    if (depth)
        recurse(depth - 1);
    CHECK(block[0] == (char)depth);
    free(block);
    set->sum++;
}
static void body(int number) {
    recurse(TURNS - 1);
    set->sum += (unsigned)number;
}

static void *contexts(void *unused) {
    (void)unused;
    set = calloc(1, sizeof *set);
    for (volatile int i = 0; i < CONTEXTS; i++) {
        set->stack[i] = i % 2
                            ? malloc(STACK)
                            : mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        CHECK(getcontext(&set->context[i]) == 0);
        set->context[i].uc_stack.ss_sp = set->stack[i];
        set->context[i].uc_stack.ss_size = STACK;
        set->context[i].uc_link = &set->scheduler;
        makecontext(&set->context[i], (void (*)(void))body, 1, i);
    }
    for (int turn = 0; turn <= TURNS; turn++)
        for (current = 0; current < CONTEXTS; current++)
            CHECK(swapcontext(&set->scheduler, &set->context[current]) == 0);
    for (int i = 0; i < CONTEXTS; i++)
        if (i % 2)
            free(set->stack[i]);
        else
            munmap(set->stack[i], STACK);
    uint64_t sum = set->sum;
    free(set);
    return (void *)(uintptr_t)sum;
}

/* by_hand(new_stack_top, function): calls function on another stack, with rbp as rubbish. */
void by_hand(void *top, void (*function)(void));
__asm__(".text\n.type by_hand,@function\nby_hand:\n"
        "  push %rbp\n  push %rbx\n  mov %rsp, %rbx\n  mov %rdi, %rsp\n  mov $0x1234567, %ebp\n"
        "  call *%rsi\n  mov %rbx, %rsp\n  pop %rbx\n  pop %rbp\n  ret\n"
        ".size by_hand, .-by_hand\n");

static uint64_t hand_sum;
static void on_other_stack(void) {
    hand_sum += churn(30, 4);
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, contexts, NULL) == 0);
    say("main %llu\n", (unsigned long long)(uintptr_t)contexts(NULL));
    for (int i = 0; i < 4; i++) {
        void *sum;
        CHECK(pthread_join(threads[i], &sum) == 0);
        say("thread %llu\n", (unsigned long long)(uintptr_t)sum);
    }
    /* The stack's end is the end of its mapping: whoever reads on above it faults. */
    char *stack = mmap(NULL, STACK + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED && mprotect(stack + STACK, 4096, PROT_NONE) == 0);
    for (int i = 0; i < 200; i++)
        by_hand(stack + STACK - (i % 8) * 16, on_other_stack);
    say("by hand %llu\n", (unsigned long long)hand_sum);
    return 0;
}
