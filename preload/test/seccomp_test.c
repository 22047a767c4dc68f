/* The interpreter of filters of system calls: each instruction, and filters as programs have them. */
#include "base/seccomp.h"
#include "test.h"

#include <stddef.h>

static struct seccomp_data call = {
    .nr = 17, .arch = 0xc000003e, .instruction_pointer = 0x1122334455667788, .args = {5, 0x100000002, 0, 0, 0, 99}};

static uint32_t run(const struct sock_filter *filter, unsigned short length) {
    struct sock_fprog program = {length, (struct sock_filter *)filter};
    return seccomp_action(&program, &call);
}

#define RUN(...)                                                                                                       \
    run((const struct sock_filter[]){__VA_ARGS__},                                                                     \
        sizeof((const struct sock_filter[]){__VA_ARGS__}) / sizeof(struct sock_filter))
#define LOAD(field)                   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_AT(at)                   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)
#define JUMP(how, k, then, otherwise) BPF_JUMP(BPF_JMP | how | BPF_K, k, then, otherwise)
#define ALLOW                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define TRAP                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)
#define KILL                          SECCOMP_RET_KILL_PROCESS

/* Whether the accumulator, as the instructions before left it, is `value`. */
#define IS(value) JUMP(BPF_JEQ, value, 0, 1), ALLOW, TRAP

TEST(returns_say_the_action_without_its_data) {
    CHECK(RUN(ALLOW) == SECCOMP_RET_ALLOW);
    CHECK(RUN(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 13)) == SECCOMP_RET_ERRNO);
    CHECK(RUN(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)) == SECCOMP_RET_KILL_PROCESS);
    CHECK(RUN(TRAP, ALLOW) == SECCOMP_RET_TRAP);
}

TEST(loads_read_the_call) {
    CHECK(RUN(LOAD(nr), IS(17)) == SECCOMP_RET_ALLOW);
    CHECK(RUN(LOAD(nr), IS(18)) == SECCOMP_RET_TRAP);
    CHECK(RUN(LOAD(arch), IS(0xc000003e)) == SECCOMP_RET_ALLOW);
    CHECK(RUN(LOAD(instruction_pointer), IS(0x55667788)) == SECCOMP_RET_ALLOW);
    CHECK(RUN(LOAD(args[1]), IS(2)) == SECCOMP_RET_ALLOW);
    CHECK(RUN(LOAD_AT(offsetof(struct seccomp_data, args[1]) + 4), IS(1)) == SECCOMP_RET_ALLOW);
    CHECK(RUN(LOAD(args[5]), IS(99)) == SECCOMP_RET_ALLOW);
    CHECK(RUN(BPF_STMT(BPF_LD | BPF_IMM, 7), IS(7)) == SECCOMP_RET_ALLOW);
}

TEST(the_accumulator_begins_as_zero) {
    CHECK(RUN(IS(0)) == SECCOMP_RET_ALLOW);
}

TEST(loads_beyond_the_call_kill) {
    CHECK(RUN(LOAD_AT(sizeof call - 4), ALLOW) == SECCOMP_RET_ALLOW);
    CHECK(RUN(LOAD_AT(sizeof call - 3), ALLOW) == KILL);
    CHECK(RUN(LOAD_AT(sizeof call), ALLOW) == KILL);
    CHECK(RUN(LOAD_AT(UINT32_MAX), ALLOW) == KILL);
}

TEST(masks) {
    CHECK(RUN(LOAD(nr), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x10), IS(0x10)) == SECCOMP_RET_ALLOW);
    CHECK(RUN(LOAD(nr), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x0e), IS(0)) == SECCOMP_RET_ALLOW);
}

/* One comparison of the accumulator, 17, with k: is it taken? */
static int jumps(uint16_t how, uint32_t k) {
    uint32_t action = RUN(LOAD(nr), JUMP(how, k, 1, 0), TRAP, ALLOW);
    CHECK(action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_TRAP);
    uint32_t other = RUN(LOAD(nr), JUMP(how, k, 0, 1), TRAP, ALLOW);
    CHECK(action != other);
    return action == SECCOMP_RET_ALLOW;
}

TEST(comparisons_are_those_of_unsigned_numbers) {
    CHECK(jumps(BPF_JEQ, 17) && !jumps(BPF_JEQ, 16));
    CHECK(jumps(BPF_JGT, 16) && !jumps(BPF_JGT, 17) && !jumps(BPF_JGT, UINT32_MAX));
    CHECK(jumps(BPF_JGE, 17) && !jumps(BPF_JGE, 18) && jumps(BPF_JGE, 0) && !jumps(BPF_JGE, 0x80000000));
    CHECK(jumps(BPF_JSET, 0x11) && jumps(BPF_JSET, 1) && !jumps(BPF_JSET, 0x0e));
}

TEST(jumps_go_over_instructions) {
    CHECK(RUN(BPF_STMT(BPF_JMP | BPF_JA, 2), TRAP, TRAP, ALLOW) == SECCOMP_RET_ALLOW);
    CHECK(RUN(BPF_STMT(BPF_JMP | BPF_JA, 0), ALLOW, TRAP) == SECCOMP_RET_ALLOW);
}

TEST(what_leads_out_of_the_filter_kills) {
    CHECK(run(NULL, 0) == KILL);
    CHECK(RUN(LOAD(nr)) == KILL);
    CHECK(RUN(BPF_STMT(BPF_JMP | BPF_JA, 1), ALLOW) == KILL);
    CHECK(RUN(BPF_STMT(BPF_JMP | BPF_JA, UINT32_MAX), ALLOW) == KILL); /* not back to its start */
    CHECK(RUN(JUMP(BPF_JEQ, 0, 255, 0), ALLOW) == KILL);
}

TEST(unknown_instructions_kill) {
    CHECK(RUN(BPF_STMT(BPF_MISC | BPF_TAX, 0), ALLOW) == KILL);
    CHECK(RUN(BPF_STMT(BPF_RET | BPF_A, 0)) == KILL);
    CHECK(RUN(BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0), ALLOW) == KILL);
    CHECK(RUN(BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1), ALLOW) == KILL);
    CHECK(RUN(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 0), ALLOW) == KILL);
}

/* As libseccomp writes it: the processor first, then a search by number, and an argument in two halves. */
static uint32_t list(int number, uint64_t argument) {
    call.nr = number;
    call.args[1] = argument;
    return RUN(LOAD(arch), JUMP(BPF_JEQ, 0xc000003e, 0, 9), LOAD(nr), JUMP(BPF_JGE, 0x40000000, 7, 0),
               JUMP(BPF_JGT, 20, 0, 1), JUMP(BPF_JEQ, 28, 4, 5), JUMP(BPF_JEQ, 3, 3, 0), JUMP(BPF_JEQ, 9, 0, 3),
               LOAD_AT(offsetof(struct seccomp_data, args[1]) + 4), JUMP(BPF_JEQ, 0, 0, 1), ALLOW,
               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
}

TEST(a_list_of_calls) {
    CHECK(list(3, 0) == SECCOMP_RET_ALLOW);
    CHECK(list(28, 1ull << 40) == SECCOMP_RET_ALLOW);
    CHECK(list(9, 4096) == SECCOMP_RET_ALLOW);
    CHECK(list(9, 1ull << 40) == KILL);
    CHECK(list(4, 0) == KILL && list(29, 0) == KILL && list(0x40000003, 0) == KILL);
}
