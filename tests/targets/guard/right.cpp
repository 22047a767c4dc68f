/* Programs that look like those of wrong.cpp, and are right: `right NUMBER`, `right count`. build: -fno-builtin -Wno-all -Wno-extra */
#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <deque>
#include <dlfcn.h>
#include <fcntl.h>
#include <functional>
#include <future>
#include <malloc.h>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define NOINLINE __attribute__((noinline))
static volatile char sink;
static volatile size_t hidden_zero;
extern char **environ;

static void expect(bool holds) {
    if (!holds) {
        puts("wrong result");
        abort();
    }
}
NOINLINE static char *block(size_t size) {
    char *bytes = static_cast<char *>(malloc(size));
    for (size_t i = 0; i<size; i += size> 100000 ? 4096 : 1)
        bytes[i] = 7;
    return bytes;
}
NOINLINE static void drop(void *bytes) {
    free(bytes);
}
NOINLINE static void look(volatile char *at) {
    sink = *at;
    asm volatile("" ::: "memory");
}
static void edges(char *p, size_t size) {
    p[0] = 1;
    p[size - 1] = 2;
    look(p);
    look(p + size - 1);
    drop(p);
}
static jmp_buf back;
static char *handled;
static void handler(int) {
    char *p = block(33);
    look(p);
    drop(p);
    look(handled);
}
static void jumper(int) {
    longjmp(back, 1);
}
struct Shape {
    virtual ~Shape() {}
    virtual int area() {
        return 3;
    }
    long side[4] = {};
};

struct Plain {
    long value[5];
};
struct Counted {
    ~Counted() {
        sink = 1;
    }
    char value[3];
};
struct alignas(64) Wide {
    char value[64];
};
/* Operators of a class: they call malloc and free, as those of an allocator do. */
struct Pooled {
    long value[3];
    static void *operator new(size_t size) {
        return malloc(size);
    }
    static void operator delete(void *at) {
        free(at);
    }
};
static char *reserve;
static void give_reserve() {
    if (reserve == nullptr)
        throw std::bad_alloc();
    delete[] reserve;
    reserve = nullptr;
}

static void (*const cases[])() = {
    [] { // Pages of a block that are given back, and then given to the kernel.
        const size_t size = 1 << 16;
        char *p = static_cast<char *>(aligned_alloc(4096, size));
        int file = open("/dev/zero", O_RDONLY), ends[2];
        expect(pipe(ends) == 0);
        for (int advice : {MADV_DONTNEED, MADV_FREE}) {
            memset(p, 7, size);
            expect(madvise(p, size, advice) == 0);
            expect(advice == MADV_FREE || p[100] == 0);
            expect(read(file, p, size) == static_cast<ssize_t>(size));
            memset(p, 7, size);
            expect(madvise(p, size, advice) == 0);
            expect(write(ends[1], p, 4096) == 4096);
            expect(read(ends[0], p + 8192, 4096) == 4096);
        }
        expect(mprotect(p, 4096, PROT_NONE) == 0 && madvise(p, 8192, MADV_DONTNEED) == 0);
        expect(mprotect(p, 4096, PROT_READ | PROT_WRITE) == 0);
        expect(p[0] == 0 && p[5000] == 0);
        expect(madvise(p + 1, 4096, MADV_DONTNEED) == -1 && errno == EINVAL);
        drop(p);
        close(file);
    },
    [] {
        delete new Plain();
        delete[] new Plain[3];
        delete[] new Counted[5];
        delete[] new char[0];
        delete new Wide();
        delete[] new Wide[2];
        delete new (std::nothrow) Plain();
        delete[] new (std::nothrow) Plain[2];
        delete new (std::nothrow) Wide();
        delete[] new (std::nothrow) Wide[2];
        delete new Pooled();
        delete static_cast<Shape *>(nullptr);
        ::operator delete(::operator new(0), size_t(0));
        ::operator delete(::operator new(9), std::nothrow);
        ::operator delete[](::operator new[](9), std::nothrow);
        ::operator delete[](::operator new[](9), size_t(9));
        ::operator delete(::operator new(9, std::align_val_t(2)), std::align_val_t(2));
        ::operator delete(::operator new(9, std::align_val_t(4096)), size_t(9), std::align_val_t(4096));
        ::operator delete[](::operator new[](9, std::align_val_t(8192)), std::align_val_t(8192));
    },
    [] {
        free(strdup("text"));
        char *line = nullptr;
        size_t size = 0;
        FILE *file = fopen("/proc/self/status", "r");
        while (getline(&line, &size, file) > 0)
            look(line);
        fclose(file);
        free(line);
        int status = 0;
        free(abi::__cxa_demangle("_ZNSt6vectorIiSaIiEE9push_backEOi", nullptr, nullptr, &status));
        expect(status == 0);
        std::unique_ptr<char, void (*)(void *)> held(block(30), free);
        std::unique_ptr<char[]> array(new char[40]);
        std::shared_ptr<Wide> shared = std::make_shared<Wide>();
        std::shared_ptr<char> third(block(20), free);
        free(aligned_alloc(64, 128));
    },
    [] {
        std::pmr::unsynchronized_pool_resource pool;
        std::pmr::vector<std::pmr::string> texts(&pool);
        std::deque<std::string> queue;
        std::vector<Wide> wide;
        for (int i = 0; i < 300; i++) {
            texts.emplace_back("a text that is longer than what fits inside " + std::to_string(i));
            queue.push_back(std::to_string(i) + " is a text that is longer than what fits inside");
            wide.emplace_back();
        }
        std::stable_sort(queue.begin(), queue.end());
        std::pmr::memory_resource *plain = std::pmr::new_delete_resource();
        plain->deallocate(plain->allocate(100, 8), 100, 8);
        plain->deallocate(plain->allocate(100, 256), 100, 256);
        std::ostringstream stream;
        stream << queue.front() << queue.back();
        std::function<void()> held = [stream = stream.str(), queue] { look(const_cast<char *>(stream.data())); };
        held();
        try {
            throw std::runtime_error(stream.str());
        } catch (const std::exception &error) {
            expect(strlen(error.what()) > 60);
        }
    },
    [] {
        reserve = new char[1000];
        std::set_new_handler(give_reserve);
        bool thrown = false;
        try {
            delete[] new char[size_t(1) << 46];
        } catch (const std::bad_alloc &) {
            thrown = true;
        }
        expect(thrown && reserve == nullptr);
        std::set_new_handler(nullptr);
        expect(new (std::nothrow) char[size_t(1) << 46] == nullptr);
        thrown = false;
        try {
            ::operator delete(::operator new(size_t(1) << 46, std::align_val_t(64)), std::align_val_t(64));
        } catch (const std::bad_alloc &) {
            thrown = true;
        }
        expect(thrown);
    },
    [] { edges(block(1), 1); },
    [] { edges(block(16), 16); },
    [] { edges(block(41), 41); },
    [] { edges(block(48), 48); },
    [] { edges(block(4095), 4095); },
    [] { edges(block(4096), 4096); },
    [] { edges(block(4097), 4097); },
    [] { edges(block(100000), 100000); },
    [] { edges(block(64 << 20), 64 << 20); },
    [] {
        void *p = malloc(hidden_zero), *q = malloc(hidden_zero);
        expect(p != q && p && q);
        drop(p);
        drop(q);
        drop(nullptr);
    },
    [] {
        char *p = block(64), to[64];
        memcpy(to, p, 64);
        drop(p);
        expect(to[63] == 7);
    },
    [] {
        char *p = static_cast<char *>(realloc(block(64), 6400));
        expect(p[63] == 7);
        p[6399] = 1;
        p = static_cast<char *>(realloc(p, 10));
        expect(p[9] == 7);
        drop(p);
    },
    [] {
        char *p = nullptr;
        for (size_t n = 1; n < 20000; n += n / 3 + 1) {
            p = static_cast<char *>(realloc(p, n));
            p[n - 1] = 5;
        }
        drop(p);
    },
    [] {
        char *p = block(10);
        expect(realloc(p, hidden_zero) == nullptr);
    },
    [] {
        for (int i = 0; i < 2000; i++) {
            char *p = static_cast<char *>(calloc(3, 100));
            for (int k = 0; k < 300; k++)
                expect(p[k] == 0);
            memset(p, 9, 300);
            drop(p);
        }
    },
    [] {
        for (size_t a = 16; a <= 8192; a *= 2) {
            char *p = static_cast<char *>(aligned_alloc(a, a * 3));
            expect(reinterpret_cast<size_t>(p) % a == 0);
            edges(p, a * 3);
        }
    },
    [] {
        void *p;
        expect(posix_memalign(&p, 256, 1000) == 0);
        edges(static_cast<char *>(p), 1000);
        expect(posix_memalign(&p, 3, 8) != 0);
    },
    [] {
        char *p = static_cast<char *>(valloc(100)), *q = static_cast<char *>(pvalloc(100));
        expect(malloc_usable_size(q) >= 4096);
        edges(p, 100);
        edges(q, 4096);
    },
    [] {
        char *p = static_cast<char *>(malloc(41));
        size_t n = malloc_usable_size(p);
        expect(n >= 41);
        memset(p, 1, n);
        drop(p);
    },
    [] {
        for (int i = 1; i < 300; i++)
            expect(reinterpret_cast<size_t>(malloc(i)) % 16 == 0);
    },
    [] {
        std::vector<std::thread> all;
        for (int t = 0; t < 8; t++)
            all.emplace_back([] {
                for (int i = 1; i < 2000; i++)
                    drop(block(i % 300 + 1));
            });
        for (auto &t : all)
            t.join();
    },
    [] {
        std::vector<char *> all(1000);
        std::thread([&] {
            for (auto &p : all)
                p = block(64);
        }).join();
        for (auto p : all) {
            look(p);
            drop(p);
        }
    },
    [] {
        handled = block(80);
        signal(SIGUSR1, handler);
        for (int i = 0; i < 20; i++)
            raise(SIGUSR1);
        drop(handled);
    },
    [] {
        signal(SIGALRM, handler);
        handled = block(8);
        itimerval none{}, often{{0, 500}, {0, 500}};
        setitimer(ITIMER_REAL, &often, nullptr);
        for (int i = 0; i < 20000; i++)
            drop(block(i % 100 + 1));
        setitimer(ITIMER_REAL, &none, nullptr);
    },
    [] {
        static int jumps;
        char *p = block(30);
        signal(SIGUSR2, jumper);
        if (setjmp(back) == 0)
            raise(SIGUSR2);
        jumps++;
        look(p);
        drop(p);
    },
    [] {
        char *p = block(96);
        if (fork() == 0) {
            look(p);
            p[5] = 1;
            drop(p);
            for (int i = 0; i < 500; i++)
                drop(block(i + 1));
            _exit(0);
        }
        int s;
        wait(&s);
        expect(s == 0);
        look(p);
        drop(p);
    },
    [] {
        char *p = static_cast<char *>(calloc(1, 5000));
        if (fork() == 0) {
            for (int i = 0; i < 5000; i++)
                expect(p[i] == 0);
            exit(0);
        }
        int s;
        wait(&s);
        expect(s == 0);
        drop(p);
    },
    [] {
        for (int i = 0; i < 3; i++)
            if (fork() == 0) {
                if (fork() == 0) {
                    drop(block(9));
                    _exit(0);
                }
                wait(nullptr);
                drop(block(900));
                exit(0);
            }
        while (wait(nullptr) > 0)
            ;
    },
    [] {
        pid_t child;
        const char *words[] = {"true", nullptr};
        expect(posix_spawnp(&child, "true", nullptr, nullptr, const_cast<char **>(words), environ) == 0);
        int s;
        waitpid(child, &s, 0);
        expect(s == 0);
    },
    [] {
        char *p = block(100);
        FILE *f = fopen("/proc/self/status", "r");
        size_t n = fread(p, 1, 100, f);
        expect(n == 100);
        fclose(f);
        drop(p);
    },
    [] {
        for (size_t n : {1, 100, 4096, 70000}) {
            char *p = static_cast<char *>(malloc(n));
            int fd = open("/dev/zero", O_RDONLY);
            expect(read(fd, p, n) == static_cast<ssize_t>(n));
            close(fd);
            fd = open("/dev/null", O_WRONLY);
            expect(write(fd, p, n) == static_cast<ssize_t>(n));
            close(fd);
            drop(p);
        }
    },
    [] {
        size_t n = 16 << 12;
        char *p = static_cast<char *>(aligned_alloc(4096, n));
        memset(p, 1, n);
        madvise(p, n, MADV_DONTNEED);
        look(p);
        p[n - 1] = 1;
        drop(p);
    },
    [] {
        std::map<std::string, std::vector<int>> m;
        for (int i = 0; i < 2000; i++)
            m[std::to_string(i * 7919 % 1000)].push_back(i);
        size_t sum = 0;
        for (auto &e : m)
            sum += e.second.size();
        expect(sum == 2000);
    },
    [] {
        auto p = std::make_shared<Shape>();
        std::weak_ptr<Shape> w = p;
        p.reset();
        expect(w.expired());
    },
    [] {
        Shape *s = new Shape[5];
        expect(s[4].area() == 3);
        delete[] s;
    },
    [] {
        std::ostringstream out;
        for (int i = 0; i < 500; i++)
            out << i << ' ';
        expect(out.str().size() > 1000);
    },
    [] {
        try {
            throw std::string(300, 'e');
        } catch (const std::string &e) {
            expect(e.size() == 300);
        }
    },
    [] {
        auto f = std::async(std::launch::async, [] { return std::string(1000, 'a'); });
        expect(f.get().size() == 1000);
    },
    [] {
        void *lib = dlopen("libm.so.6", RTLD_NOW);
        expect(lib && dlsym(lib, "cos"));
        dlclose(lib);
    },
    [] {
        char *text = strdup("hello"), *line = nullptr;
        expect(asprintf(&line, "%s %d", text, 5) == 7);
        expect(strcmp(line, "hello 5") == 0);
        drop(text);
        drop(line);
    },
    [] {
        setenv("A_NAME", std::string(200, 'v').c_str(), 1);
        unsetenv("A_NAME");
        char *path = realpath("/proc/self/../self", nullptr);
        drop(path);
    },
    [] {
        mlockall(MCL_CURRENT | MCL_FUTURE);
        for (int i = 0; i < 200; i++)
            drop(block(i * 30 + 1));
        munlockall();
    },
    [] {
        rlimit low{64 << 20, 64 << 20};
        setrlimit(RLIMIT_DATA, &low);
        for (int i = 0; i < 5000; i++)
            drop(block(i % 500 + 1));
    },
    [] {
        for (int i = 0; i < 70000; i++)
            drop(block(16));
    },
    [] {
        std::vector<char *> all;
        for (int i = 0; i < 20000; i++)
            all.push_back(block(24));
        for (char *p : all)
            drop(p);
    },
    [] {
        for (int fd = 3; fd < 256; fd++)
            close(fd);
        for (int i = 1; i < 2000; i++)
            drop(block(i));
    },
    [] { // Larger, or more aligned, than any slot: blocks of the allocator's own.
        for (size_t size : {size_t(129) << 20, (size_t(200) << 20) + 24}) {
            char *p = static_cast<char *>(malloc(size));
            p[size - 1] = 1;
            p = static_cast<char *>(realloc(p, size + 4096));
            drop(realloc(p, 4096));
            drop(calloc(1, size));
        }
        for (size_t alignment = 8192; alignment <= 4 << 20; alignment *= 2)
            for (size_t size : {size_t(1), size_t(40), size_t(100000), size_t(5) << 20}) {
                void *p = nullptr;
                expect(posix_memalign(&p, alignment, size) == 0);
                drop(realloc(p, size + 1));
                drop(aligned_alloc(alignment, alignment));
            }
    },
    [] {
        std::vector<std::thread> threads;
        for (int n = 0; n < 4; n++)
            threads.emplace_back([] {
                std::vector<void *> all;
                for (int i = 0; i < 200; i++) {
                    void *p = nullptr;
                    expect(posix_memalign(&p, 8192, i * 37 + 1) == 0);
                    all.push_back(p);
                }
                for (void *p : all)
                    drop(p);
            });
        for (std::thread &thread : threads)
            thread.join();
    },
    [] {
        char *p = block(64);
        std::sort(p, p + 64);
        std::reverse(p, p + 64);
        expect(std::count(p, p + 64, 7) == 64);
        drop(p);
    },
};

int main(int argc, char **argv) {
    const int count = sizeof cases / sizeof *cases;
    if (argc == 2 && strcmp(argv[1], "count") == 0)
        return printf("%d\n", count), 0;
    cases[atoi(argv[1])]();
    puts("went on");
}
