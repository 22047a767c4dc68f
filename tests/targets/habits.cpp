/*
 * build: -std=c++17
 *
 * Habits that cost, one a function (`habits`), and what looks nearly like each of them and is none (`nearly`).
 */
#include "target.h"

#include <pthread.h>
#include <string>
#include <vector>

#define APART __attribute__((noinline, noclone))

/* Blocks in a ring: a new one frees the oldest. No habit of any kind. */
enum { RING = 16 };
struct Ring {
    void *blocks[RING] = {};
    unsigned next = 0;

    void put(void *block) {
        void *&place = blocks[next++ % RING];
        free(place);
        place = keep(block);
    }
    ~Ring() {
        for (void *block : blocks)
            free(block);
    }
};

/* Buffers that grow by a fixed amount; all stay until the end. */
static APART void grow_by_realloc() {
    enum { BUFFERS = 500, LAST = 1024, STEP = 16 };
    static char *buffers[BUFFERS];
    for (char *&buffer : buffers)
        for (size_t size = STEP; size <= LAST; size += STEP)
            buffer = (char *)keep(realloc(buffer, size));
    Ring ring;
    for (char *buffer : buffers)
        ring.put(buffer), ring.put(malloc(8));
}

static APART void realloc_once() {
    Ring ring;
    for (int i = 0; i < 20000; i++)
        ring.put(realloc(keep(malloc(64)), 96));
}

static APART void grow_vectors() {
    static std::vector<int> vectors[1000];
    for (auto &vector : vectors)
        for (int i = 0; i < 4096; i++)
            vector.push_back(i);
    for (auto &vector : vectors) {
        std::vector<int>().swap(vector);
        free(keep(malloc(8)));
    }
}

/* Each is allocated before the last one is freed, and is not its continuation. */
static APART void ever_larger() {
    void *last = malloc(64);
    for (size_t size = 128; size < 64 * 6000; size += 64) {
        void *next = keep(malloc(size));
        free(last);
        last = next;
    }
    free(last);
}

static APART void reserve_vectors() {
    std::vector<int> vectors[RING];
    for (int n = 0; n < 20000; n++) {
        std::vector<int> vector;
        vector.reserve(32);
        for (int i = 0; i < 32; i++)
            vector.push_back(i);
        vectors[n % RING].swap(vector);
    }
}

static APART int rebuild_vector(int elements) {
    std::vector<int> vector;
    for (int i = 0; i < elements; i++)
        vector.push_back(i);
    return *(int *)keep(vector.data());
}

static APART int clear_vector(int elements) {
    static std::vector<int> vector;
    vector.clear();
    for (int i = 0; i < elements; i++)
        vector.push_back(i);
    return *(int *)keep(vector.data());
}

static APART void scratch_in_loop() {
    for (int i = 0; i < 30000; i++)
        free(keep(malloc(256)));
}

static APART void two_at_a_time() {
    /* Two calls would be two sites with one block at a time each. */
    volatile int two = 2;
    for (int i = 0; i < 15000; i++) {
        void *blocks[2];
        for (int n = 0; n < two; n++)
            blocks[n] = keep(malloc(256));
        free(blocks[0]);
        free(blocks[1]);
    }
}

struct Node {
    Node *next;
    char name[32];
};

static APART void lists_of(int nodes, int lists) {
    for (int l = 0; l < lists; l++) {
        Node *list = nullptr;
        for (int i = 0; i < nodes; i++) {
            Node *node = (Node *)malloc(sizeof(Node));
            node->next = list;
            list = (Node *)keep(node);
        }
        while (list) {
            Node *next = list->next;
            free(list);
            list = next;
        }
    }
}

/* One place for a message: handing over allocates nothing. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static void *message;

static APART void *receive(void *) {
    for (int i = 0; i < 30000; i++) {
        pthread_mutex_lock(&lock);
        while (!message)
            pthread_cond_wait(&changed, &lock);
        free(message);
        message = nullptr;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
    return nullptr;
}

static APART void send_messages() {
    pthread_t other;
    CHECK(pthread_create(&other, nullptr, receive, nullptr) == 0);
    for (int i = 0; i < 30000; i++) {
        pthread_mutex_lock(&lock);
        while (message)
            pthread_cond_wait(&changed, &lock);
        message = keep(malloc(64));
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
    CHECK(pthread_join(other, nullptr) == 0);
}

static APART void *own_blocks(void *) {
    Ring ring;
    for (int i = 0; i < 15000; i++)
        ring.put(malloc(64));
    return nullptr;
}

static APART void threads_for_themselves() {
    pthread_t other;
    CHECK(pthread_create(&other, nullptr, own_blocks, nullptr) == 0);
    own_blocks(nullptr);
    CHECK(pthread_join(other, nullptr) == 0);
}

/* Stays until the process ends. */
static char *table;

static APART void double_table(bool shrink) {
    size_t size = 1 << 20;
    for (table = (char *)malloc(size); size < 8 << 20; size *= 2)
        table = (char *)keep(realloc(table, 2 * size));
    if (shrink)
        table = (char *)keep(realloc(table, size / 2 + 1));
}

static APART void copy_names(int copies) {
    const std::string name(40, 'n');
    std::string names[RING];
    for (int i = 0; i < copies; i++) {
        std::string copy(name);
        names[i % RING].swap(copy);
        keep(&names);
    }
}

static bool habitual;

static APART void allocate_outside() {
    Ring ring;
    for (int i = 0; i < (habitual ? 20000 : 300); i++)
        ring.put(malloc(24));
}

__attribute__((constructor)) static void before_main(int argc, char **argv) {
    habitual = argc > 1 && strcmp(argv[1], "habits") == 0;
    allocate_outside();
    keep(argv);
}

static void at_exit(void) {
    allocate_outside();
    keep(nullptr);
}

int main(int argc, char **argv) {
    CHECK(argc == 2 && (habitual || strcmp(argv[1], "nearly") == 0));
    CHECK(atexit(at_exit) == 0);
    double_table(!habitual);
    if (habitual) {
        grow_by_realloc();
        grow_vectors();
        for (int i = 0; i < 4000; i++)
            rebuild_vector(32);
        scratch_in_loop();
        lists_of(3000, 10);
        send_messages();
        copy_names(130000);
    } else {
        realloc_once();
        ever_larger();
        reserve_vectors();
        for (int i = 0; i < 4000; i++)
            clear_vector(32);
        two_at_a_time();
        lists_of(20, 1500);
        threads_for_themselves();
        copy_names(25000);
    }
    say("done\n");
    return argv[0] == nullptr;
}
