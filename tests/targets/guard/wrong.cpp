/* Programs with one memory error each: `wrong NUMBER` commits it, `wrong count` prints how many there are, `wrong name NUMBER` its
 * kind, as mallow guard calls it. What is wrong happens in a function `culprit`, or below it. build: -fno-builtin -Wno-all -Wno-extra */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define NOINLINE __attribute__((noinline))
static volatile char sink;
static volatile size_t hidden_zero;

NOINLINE static char *block(size_t size) {
    char *bytes = static_cast<char *>(malloc(size));
    memset(bytes, 7, size);
    return bytes;
}
NOINLINE static void drop(void *bytes) {
    free(bytes);
}
NOINLINE static void culprit_read(volatile char *at) {
    sink = *at;
    asm volatile("" ::: "memory");
}
NOINLINE static void culprit_write(volatile char *at) {
    *at = 1;
    asm volatile("" ::: "memory");
}
NOINLINE static void culprit_free(void *at) {
    free(at);
    asm volatile("" ::: "memory");
}

NOINLINE static void *culprit_realloc(void *at, size_t size) {
    void *moved = realloc(at, size);
    asm volatile("" ::: "memory");
    return moved;
}
static char *mapped(size_t size) {
    return static_cast<char *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

struct Node {
    Node *next;
    long value[6];
};
NOINLINE static long culprit_walk(Node *node) {
    long sum = 0;
    for (; node; node = node->next)
        sum += node->value[2];
    return sum;
}
NOINLINE static void culprit_copy(char *to, const char *from, size_t n) {
    memcpy(to, from, n);
    asm volatile("" ::: "memory");
}
NOINLINE static size_t culprit_length(const char *text) {
    size_t n = strlen(text);
    asm volatile("" ::: "memory");
    return n;
}
static char *shared_block;
static void *culprit_thread(void *) {
    culprit_read(shared_block);
    return nullptr;
}
static void culprit_handler(int) {
    culprit_write(shared_block);
}
struct Shape {
    virtual ~Shape() {}
    virtual int area() {
        return 3;
    }
    long side[4] = {};
};
NOINLINE static int culprit_call(Shape *shape) {
    return shape->area();
}

struct Plain {
    long value[5];
};
struct alignas(64) Wide {
    char value[64];
};
struct Longer : Plain {
    long more[4];
};
NOINLINE static void culprit_delete(Plain *at) {
    delete at;
    asm volatile("" ::: "memory");
}
NOINLINE static void culprit_delete_array(char *at) {
    delete[] at;
    asm volatile("" ::: "memory");
}
NOINLINE static void culprit_delete_wide(Wide *at) {
    delete at;
    asm volatile("" ::: "memory");
}
NOINLINE static void culprit_delete_unaligned(void *at) {
    ::operator delete(at);
    asm volatile("" ::: "memory");
}
NOINLINE static void culprit_delete_sized(void *at, size_t size) {
    ::operator delete(at, size);
    asm volatile("" ::: "memory");
}
NOINLINE static void culprit_delete_aligned(void *at, size_t alignment) {
    ::operator delete(at, std::align_val_t(alignment));
    asm volatile("" ::: "memory");
}
NOINLINE static Plain *plain(void *at) {
    return static_cast<Plain *>(at);
}

struct Case {
    const char *kind;
    void (*commit)();
};
static const Case cases[] = {
    {"use-after-free",
     [] {
         char *p = block(48);
         drop(p);
         culprit_read(p);
     }},
    {"use-after-free",
     [] {
         char *p = block(48);
         drop(p);
         culprit_write(p + 47);
     }},
    {"use-after-free",
     [] {
         char *p = block(1);
         drop(p);
         culprit_read(p);
     }},
    {"use-after-free",
     [] {
         char *p = block(4095);
         drop(p);
         culprit_read(p + 4000);
     }},
    {"use-after-free",
     [] {
         char *p = block(4096);
         drop(p);
         culprit_read(p);
     }},
    {"use-after-free",
     [] {
         char *p = block(4097);
         drop(p);
         culprit_write(p + 4096);
     }},
    {"use-after-free",
     [] {
         char *p = block(100000);
         drop(p);
         culprit_read(p + 77777);
     }},
    {"use-after-free",
     [] {
         char *p = block(64 << 20);
         drop(p);
         culprit_read(p + (63 << 20));
     }},
    {"use-after-free",
     [] {
         char *p = block(64), to[64];
         drop(p);
         culprit_copy(to, p, 64);
     }},
    {"use-after-free",
     [] {
         char *p = block(64), from[64] = {};
         drop(p);
         culprit_copy(p, from, 64);
     }},
    {"use-after-free",
     [] {
         char *p = block(64);
         char *q = static_cast<char *>(realloc(p, 6400));
         culprit_read(p);
         drop(q);
     }},
    {"use-after-free",
     [] {
         char *p = static_cast<char *>(calloc(8, 8));
         drop(p);
         culprit_read(p + 8);
     }},
    {"use-after-free",
     [] {
         char *p = static_cast<char *>(aligned_alloc(64, 256));
         drop(p);
         culprit_read(p + 200);
     }},
    {"use-after-free",
     [] {
         shared_block = block(80);
         drop(shared_block);
         pthread_t t;
         pthread_create(&t, nullptr, culprit_thread, nullptr);
         pthread_join(t, nullptr);
     }},
    {"use-after-free",
     [] {
         shared_block = block(80);
         drop(shared_block);
         signal(SIGUSR1, culprit_handler);
         raise(SIGUSR1);
     }},
    {"use-after-free",
     [] {
         Node *n = static_cast<Node *>(calloc(1, sizeof(Node)));
         Node *m = static_cast<Node *>(calloc(1, sizeof(Node)));
         n->next = m;
         drop(m);
         sink = culprit_walk(n);
         drop(n);
     }},
    {"use-after-free",
     [] {
         Shape *s = new Shape;
         Shape *volatile k = s;
         delete s;
         culprit_read(reinterpret_cast<char *>(k) + 8);
     }},
    {"use-after-free",
     [] {
         auto *v = new std::vector<int>(100, 3);
         int *inside = v->data();
         v->resize(10000);
         culprit_read(reinterpret_cast<char *>(inside));
         delete v;
     }},
    {"use-after-free",
     [] {
         auto *s = new std::string(200, 'x');
         const char *text = s->c_str();
         delete s;
         culprit_read(const_cast<char *>(text) + 9);
     }},
    {"use-after-free",
     [] {
         char *p = block(48);
         for (int i = 0; i < 3000; i++)
             drop(block(48));
         drop(p);
         for (int i = 0; i < 3000; i++)
             drop(block(48));
         culprit_read(p);
     }},
    {"use-after-free",
     [] {
         char *p = block(48);
         std::thread([p] { drop(p); }).join();
         culprit_write(p + 4);
     }},
    {"use-after-free",
     [] {
         char *p = block(96);
         if (fork() == 0) {
             drop(p);
             culprit_read(p);
             _exit(0);
         }
         wait(nullptr);
         drop(p);
     }},
    {"use-after-free",
     [] {
         char *p = block(96);
         drop(p);
         if (fork() == 0) {
             drop(block(8));
             culprit_read(p + 1);
             exit(0);
         }
         wait(nullptr);
     }},
    {"overflow",
     [] {
         char *p = block(48);
         culprit_read(p + 48);
         drop(p);
     }},
    {"overflow",
     [] {
         char *p = block(48);
         culprit_write(p + 48);
         drop(p);
     }},
    {"overflow",
     [] {
         char *p = block(4096);
         culprit_write(p + 4096);
         drop(p);
     }},
    {"overflow",
     [] {
         char *p = block(8192);
         culprit_read(p + 8192);
         drop(p);
     }},
    {"overflow",
     [] {
         char *p = block(16);
         culprit_read(p + 16 + 1000);
         drop(p);
     }},
    {"overflow",
     [] {
         char *p = block(1 << 20);
         culprit_write(p + (1 << 20));
         drop(p);
     }},
    {"overflow",
     [] {
         char *p = block(32), *q = block(48);
         culprit_copy(p, q, 48);
         drop(p);
         drop(q);
     }},
    {"overflow",
     [] {
         char *p = block(32);
         memset(p, 'a', 32);
         sink = culprit_length(p) > 0;
         drop(p);
     }},
    {"overflow",
     [] {
         char *p = static_cast<char *>(malloc(hidden_zero));
         culprit_read(p);
         drop(p);
     }},
    {"overflow",
     [] {
         char *p = static_cast<char *>(memalign(4096, 4096));
         culprit_write(p + 4096);
         drop(p);
     }},
    {"overflow",
     [] {
         long *a = new long[6]();
         culprit_write(reinterpret_cast<char *>(a + 6));
         delete[] a;
     }},
    {"overflow",
     [] {
         char *p = static_cast<char *>(realloc(block(16), 160));
         culprit_read(p + 160);
         drop(p);
     }},
    {"underflow",
     [] {
         char *p = block(4096);
         culprit_read(p - 1);
         drop(p);
     }},
    {"underflow",
     [] {
         char *p = block(8192);
         culprit_write(p - 8);
         drop(p);
     }},
    {"double-free",
     [] {
         char *p = block(48);
         drop(p);
         culprit_free(p);
     }},
    {"double-free",
     [] {
         char *p = block(100000);
         drop(p);
         culprit_free(p);
     }},
    {"double-free",
     [] {
         char *p = block(48);
         drop(realloc(p, 4800));
         culprit_free(p);
     }},
    {"double-free",
     [] {
         char *p = block(48);
         std::thread([p] { drop(p); }).join();
         culprit_free(p);
     }},
    {"interior-free",
     [] {
         char *p = block(48);
         culprit_free(p + 16);
         drop(p);
     }},
    {"interior-free",
     [] {
         char *p = block(9000);
         culprit_free(p + 4096);
         drop(p);
     }},
    {"foreign-free",
     [] {
         static char text[64];
         culprit_free(text);
     }},
    {"foreign-free",
     [] {
         char text[64];
         asm volatile("" : : "r"(text) : "memory");
         culprit_free(text + 16);
     }},
    {"foreign-free", [] { culprit_free(const_cast<char *>("a literal")); }},
    {"foreign-free",
     [] {
         std::thread([] {
             char text[64] = {};
             asm volatile("" : : "r"(text) : "memory");
             culprit_free(text + 32);
         }).join();
     }},
    {"foreign-free", [] { culprit_free(mapped(1 << 16)); }},
    {"foreign-free", [] { culprit_free(mapped(1 << 16) + 4096 + 64); }},
    {"foreign-free", [] { culprit_free(reinterpret_cast<void *>(0x1230)); }},
    {"foreign-free", [] { culprit_free(reinterpret_cast<void *>(0x123456789000)); }},
    {"foreign-free", [] { culprit_free(reinterpret_cast<void *>(0x4141414141414140)); }},
    {"foreign-free",
     [] {
         static char text[64];
         drop(culprit_realloc(text, 100));
     }},
    {"foreign-free", [] { drop(culprit_realloc(mapped(1 << 16), 100)); }},
    {"foreign-free",
     [] {
         // Larger than any slot.
         char *p = static_cast<char *>(malloc(200 << 20));
         culprit_free(p + 8);
         drop(p);
     }},
    {"mismatched-free", [] { culprit_delete(plain(block(sizeof(Plain)))); }},
    {"mismatched-free", [] { culprit_delete_array(block(24)); }},
    {"mismatched-free", [] { culprit_delete(plain(calloc(1, sizeof(Plain)))); }},
    {"mismatched-free", [] { culprit_delete(plain(realloc(block(9), sizeof(Plain)))); }},
    {"mismatched-free", [] { culprit_delete_array(strdup("a text of the C library's")); }},
    {"mismatched-free", [] { culprit_delete_wide(static_cast<Wide *>(aligned_alloc(64, 64))); }},
    {"mismatched-free", [] { culprit_free(new Plain()); }},
    {"mismatched-free", [] { culprit_free(new char[33]); }},
    {"mismatched-free", [] { culprit_free(new std::string("short")); }},
    {"mismatched-free", [] { culprit_free(new Wide()); }},
    {"mismatched-free", [] { drop(culprit_realloc(new char[33], 50)); }},
    {"mismatched-free", [] { culprit_delete(plain(new char[sizeof(Plain)])); }},
    {"mismatched-free", [] { culprit_delete_array(reinterpret_cast<char *>(new Plain())); }},
    {"mismatched-free", [] { culprit_free(new (std::nothrow) Plain()); }},
    {"mismatched-free", [] { culprit_delete(plain(new (std::nothrow) char[sizeof(Plain)])); }},
    {"mismatched-free", [] { culprit_delete_sized(::operator new(40), 8); }},
    {"mismatched-free", [] { culprit_delete(new Longer()); }},
    {"mismatched-free", [] { culprit_delete_unaligned(new Wide()); }},
    {"mismatched-free", [] { culprit_delete_aligned(new Wide(), 32); }},
    {"mismatched-free", [] { culprit_delete_aligned(new Plain(), 64); }},
    {"mismatched-free", [] { std::thread([] { culprit_free(new Plain()); }).join(); }},
    {"write-beside-block",
     [] {
         char *p = block(41);
         culprit_write(p + 41);
         culprit_free(p);
     }},
    {"write-beside-block",
     [] {
         char *p = block(100);
         culprit_write(p - 1);
         culprit_free(p);
     }},
    {"write-beside-block",
     [] {
         char *p = block(1);
         culprit_write(p + 8);
         culprit_free(p);
     }},
    {"write-beside-block",
     [] {
         char *p = block(23);
         culprit_write(p + 25);
     }},
};

int main(int argc, char **argv) {
    const int count = sizeof cases / sizeof *cases;
    if (argc == 2 && strcmp(argv[1], "count") == 0)
        return printf("%d\n", count), 0;
    if (argc == 3)
        return printf("%s\n", cases[atoi(argv[2])].kind), 0;
    cases[atoi(argv[1])].commit();
    puts("went on");
}
