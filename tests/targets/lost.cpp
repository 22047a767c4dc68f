// Blocks that nothing points to any more at the end, and blocks to which the last pointer is in an odd place. Each call site
// has its own function, whose name says what is to be found: lost_… or kept_….
//
//   lost WHAT…   does these things in turn: see `things`
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

#define OUT __attribute__((noinline, noclone))

// Pointers are hidden from a look at the stack and at registers by their complement.
static uintptr_t hidden[64];
static int hidden_count;

OUT static void clobber() {
    volatile char stack[16384];
    memset((void *)stack, 0, sizeof stack);
}

struct Node {
    Node *next;
    char data[40];
};

OUT static void *lost_alone() {
    return memset(malloc(100), 0, 100);
}
OUT static Node *lost_list(Node *next) {
    Node *node = (Node *)calloc(1, sizeof(Node));
    node->next = next;
    return node;
}
OUT static void *kept_global() {
    return memset(malloc(200), 0, 200);
}
OUT static void *kept_by_kept() {
    return memset(malloc(210), 0, 210);
}
OUT static void *kept_interior() {
    return memset(malloc(5000), 0, 5000);
}
OUT static void *kept_large() {
    return memset(malloc(1 << 20), 0, 1 << 20);
}
OUT static void *kept_by_large() {
    return memset(malloc(220), 0, 220);
}
OUT static void *kept_thread_local() {
    return memset(malloc(230), 0, 230);
}
OUT static void *kept_mapping() {
    return memset(malloc(240), 0, 240);
}
OUT static void *kept_sealed() {
    return memset(malloc(235), 0, 235);
}
OUT static void *kept_code() {
    return memset(malloc(245), 0, 245);
}
OUT static void *kept_stack() {
    return memset(malloc(250), 0, 250);
}
OUT static void *kept_thread_stack() {
    return memset(malloc(260), 0, 260);
}
OUT static void *kept_by_parents() {
    return memset(malloc(270), 0, 270);
}
OUT static void *kept_parent() {
    return memset(malloc(280), 0, 280);
}
OUT static void *lost_child() {
    return memset(malloc(290), 0, 290);
}
OUT static void *lost_thread() {
    return memset(malloc(300), 0, 300);
}
OUT static void *lost_destructor() {
    return memset(malloc(310), 0, 310);
}

struct Connection;
struct Session {
    std::shared_ptr<Connection> connection;
    char data[64];
};
struct Connection {
    std::shared_ptr<Session> session;
    std::string name;
};
OUT static std::shared_ptr<Session> open_session() {
    return std::make_shared<Session>();
}
OUT static std::shared_ptr<Connection> open_connection() {
    auto connection = std::make_shared<Connection>();
    connection->name = std::string(100, 'x');
    return connection;
}
OUT static void serve() {
    auto session = open_session();
    session->connection = open_connection();
    session->connection->session = session;
}
// Some have the address of the one before in room that the program does not use, as of what was there once.
struct Peer {
    std::shared_ptr<Peer> other;
    char data[32];
    void *unused;
};
OUT static std::shared_ptr<Peer> open_peer() {
    return std::make_shared<Peer>();
}
// Addresses are hidden by their complements.
OUT static uintptr_t meet(uintptr_t stray) {
    auto one = open_peer();
    one->other = open_peer();
    one->other->other = one;
    if (stray != 0)
        one->unused = reinterpret_cast<void *>(~stray);
    return ~reinterpret_cast<uintptr_t>(one.get());
}
OUT static void meet_many(bool all_stray) {
    uintptr_t before = 0;
    for (int n = 0; n < 100; n++)
        before = meet(all_stray || n % 30 == 29 ? before : 0);
}
struct Watcher {
    std::shared_ptr<Watcher> self;
    char data[64];
};
OUT static void watch_itself() {
    auto watcher = std::make_shared<Watcher>();
    watcher->self = watcher;
}
// Containers of the library whose blocks have addresses within the container: of the link before a table's first node, of a tree's head,
// and of a list that is a member.
struct Queue {
    long number;
    std::list<std::string> items;
};
OUT static void lose_containers() {
    auto table = new std::unordered_map<std::string, std::vector<int>>;
    auto tree = new std::map<int, std::string>;
    auto queue = new Queue;
    table->reserve(2000);           // No slots are freed, whose words others would have in room that they do not use.
    auto list = new std::list<int>; // Its head is its start.
    for (int n = 0; n < 1000; n++) {
        list->push_back(n);
        (*table)[std::string(30, 'k') + std::to_string(n)].push_back(n);
        (*tree)[n] = std::string(40, 't');
        queue->items.push_back(std::string(50, 'q'));
    }
}
struct Links {
    Links *next, *before;
    char data[64];
};
/* An empty list as C has them: no cycle, though it points to itself. */
OUT static void empty_list() {
    auto list = static_cast<Links *>(malloc(sizeof(Links)));
    list->next = list->before = list;
}

void *global;
void *global_interior, *global_large, *global_parent;
static thread_local void *own_storage;
void *volatile *mapping;
static int never;

struct Frees {
    void *block = nullptr;
    ~Frees() {
        free(block);
        lost_destructor();
    }
};
static Frees frees;

OUT static void lose() {
    for (int i = 0; i < 5; i++)
        lost_alone();
    Node *list = nullptr;
    for (int i = 0; i < 20; i++)
        list = lost_list(list);
    hidden[hidden_count++] = ~(uintptr_t)list;
}

OUT static void keep() {
    void **kept = (void **)kept_global();
    kept[3] = kept_by_kept();
    global = kept;
    global_interior = (char *)kept_interior() + 4000;
    void **large = (void **)kept_large();
    large[100000] = kept_by_large();
    global_large = large;
    own_storage = kept_thread_local();
    asm volatile("" ::"r"(&own_storage) : "memory");
    // Sparse: a mebibyte of mebibytes, of which two pages exist.
    const size_t bytes = (size_t)1 << 40;
    mapping =
        (void *volatile *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping != MAP_FAILED)
        mapping[bytes / 16] = kept_mapping();
    // A table that is written once.
    void **sealed = (void **)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sealed != MAP_FAILED) {
        sealed[7] = kept_sealed();
        mprotect(sealed, 4096, PROT_READ);
    }
    // As a compiler at run time has it: an operand of an instruction, where no word begins.
    char *code = (char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code != MAP_FAILED) {
        void *block = kept_code();
        memcpy(code + 1003, &block, sizeof block);
        mprotect(code, 4096, PROT_READ | PROT_EXEC);
    }
    frees.block = malloc(1000);
}

OUT static void wait_with(void *block) {
    void *volatile own = block;
    while (!never)
        pause();
    asm volatile("" ::"r"(own) : "memory");
}

OUT static void start_threads(int count) {
    for (int i = 0; i < count; i++)
        std::thread([] { wait_with(kept_thread_stack()); }).detach();
    for (int i = 0; i < 4; i++)
        std::thread([] {
            void *volatile block = lost_thread();
            (void)block;
        }).join();
    usleep(200000);
}

/* More memory than mallow copies. */
OUT static void take_much() {
    const size_t size = 300 << 20;
    void *much = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (much == MAP_FAILED)
        _exit(97);
    memset(much, 1, size);
}

OUT static void fork_child() {
    fflush(stdout);
    if (fork() == 0) {
        ((void **)global_parent)[5] = kept_by_parents();
        lost_child();
        clobber();
        exit(0);
    }
    wait(NULL);
}

// Many blocks that point to each other: a scan takes a while.
OUT static void **kept_many(void **next) {
    void **block = (void **)malloc(64);
    for (int i = 0; i < 8; i++)
        block[i] = next;
    return block;
}

// Reads the state of a process: S, where it sleeps.
static char state_of(pid_t pid) {
    char path[64], text[512] = {};
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end == NULL ? 0 : name_end[2];
}

static int at_exit[2];

// A child meets its parent in the wait at its exit, sends a signal to mallow or to the parent, and says whether the parent ends.
OUT static void meet_at_exit(bool mallow_is_hit, int signal) {
    fflush(stdout);
    pid_t mallow = getppid(), parent = getpid();
    if (pipe(at_exit) != 0)
        _exit(99);
    if (fork() == 0) {
        char byte;
        close(at_exit[1]);
        if (read(at_exit[0], &byte, 1) != 1)
            _exit(1);
        for (int i = 0; i < 100000 && getppid() == parent && state_of(parent) != 'S'; i++)
            usleep(50);
        bool met = state_of(parent) == 'S' && getppid() == parent;
        kill(mallow_is_hit ? mallow : parent, signal);
        int i = 0;
        while (i < 1000 && getppid() == parent && state_of(parent) != 'Z') {
            usleep(10000);
            i++;
        }
        FILE *file = fopen("met", "w");
        fprintf(file, "%s, %s\n", met ? "met" : "missed", i < 1000 ? "ended" : "waits for ever");
        fclose(file);
        if (signal == SIGSTOP)
            kill(mallow, SIGCONT);
        _exit(0);
    }
    close(at_exit[0]);
    void **block = NULL;
    for (int i = 0; i < 1000000; i++)
        block = kept_many(block);
    global = block;
}

static void exit_begins() {
    if (at_exit[1] != 0 && write(at_exit[1], "", 1) != 1)
        _exit(98);
}

int main(int argc, char **argv) {
    atexit(exit_begins); // first, so that it runs last
    void *volatile on_stack = kept_stack();
    global_parent = kept_parent();
    for (int i = 1; i < argc; i++) {
        std::string what = argv[i];
        if (what == "lose")
            lose();
        else if (what == "keep")
            keep();
        else if (what == "cycles")
            for (int n = 0; n < 100; n++)
                serve();
        else if (what == "stray-cycles" || what == "list-of-cycles")
            meet_many(what == "list-of-cycles");
        else if (what == "self-cycles")
            for (int n = 0; n < 50; n++) {
                watch_itself();
                empty_list();
            }
        else if (what == "containers")
            lose_containers();
        else if (what == "threads")
            start_threads(64);
        else if (what == "large")
            take_much();
        else if (what == "fork")
            fork_child();
        else if (what == "stop-mallow")
            meet_at_exit(true, SIGSTOP);
        else if (what == "kill-mallow")
            meet_at_exit(true, SIGKILL);
        else if (what == "kill-waiting")
            meet_at_exit(false, SIGKILL);
        else if (what == "_exit")
            _exit(4);
        else if (what == "kill")
            raise(SIGKILL);
        clobber();
    }
    printf("the end\n");
    fflush(stdout);
    clobber();
    asm volatile("" ::"r"(on_stack) : "memory");
    exit(7);
}
