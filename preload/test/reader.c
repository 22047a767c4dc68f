/* See reader.h. An oracle of its own: it shares no code with crates/capture/src/wire/record.rs. */
#include "reader.h"
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void futex_wake(uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void *map_file(const char *path, size_t bytes) {
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    close(fd);
    return at;
}

void reading_make(struct reading *reading, enum mallow_mode mode) {
    *reading = (struct reading){0};
    snprintf(reading->directory, sizeof reading->directory, "%s/run-XXXXXX", getenv("TEST_DIR"));
    CHECK(mkdtemp(reading->directory) != NULL);
    char path[300];
    snprintf(path, sizeof path, "%s/control", reading->directory);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    close(fd);
    reading->control = map_file(path, 4096);
    *reading->control = (struct mallow_control){
        .magic = MALLOW_CONTROL_MAGIC,
        .version = MALLOW_WIRE_VERSION,
        .mode = mode,
        .max_depth = 16,
        .reader_pid = (uint32_t)getpid(),
        .reader = (uint32_t)getpid(),
        .large_ring_words = 4096,
        .small_ring_words = 256,
        .max_threads = 32,
        .epoch = 1,
    };
}

void reading_start(struct reading *reading, const char *scenario, const char *underlying) {
    char preload[600];
    snprintf(preload, sizeof preload, "%s%s%s", getenv("TEST_LIBRARY"), underlying ? ":" : "",
             underlying ? underlying : "");
    fflush(stdout);
    reading->pid = fork();
    CHECK(reading->pid >= 0);
    if (reading->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        reading->control->root_pid = (uint32_t)getpid();
        CHECK(setenv("LD_PRELOAD", preload, 1) == 0);
        CHECK(setenv(MALLOW_DIR_VARIABLE, reading->directory, 1) == 0);
        execl("/proc/self/exe", "scenario", "scenario", scenario, NULL);
        _exit(97);
    }
}

static void append(struct words *words, const uint64_t *from, size_t count) {
    if (words->count + count > words->capacity) {
        words->capacity = 2 * (words->count + count);
        words->word = realloc(words->word, words->capacity * sizeof *words->word);
        CHECK(words->word != NULL);
    }
    memcpy(words->word + words->count, from, count * sizeof *from);
    words->count += count;
}

/* Words of the record that begins here, by its head word. */
static size_t record_words(uint64_t head) {
    uint64_t op = head >> 56;
    if (op == MALLOW_OP_STACK)
        return 1 + (head & 0xffff);
    if (op >= MALLOW_OP_ALLOC || op == MALLOW_OP_REALLOC_DONE)
        return 2 + (head >> 48 & MALLOW_FLAG_WIDE_SIZE) - ((head >> 48 & MALLOW_FLAG_SAME) != 0);
    return 1;
}

static void read_ring(struct image *image, uint32_t index) {
    const struct mallow_process *p = image->process;
    struct mallow_thread *thread = &image->threads[index];
    uint64_t large = index < MALLOW_LARGE_RINGS ? index : MALLOW_LARGE_RINGS;
    const uint64_t *ring = (const uint64_t *)((const char *)p + p->rings_offset) + large * p->large_ring_words +
                           (index - large) * p->small_ring_words;
    uint64_t tail = thread->tail, head = __atomic_load_n(&thread->head, __ATOMIC_ACQUIRE);
    uint64_t size = __atomic_load_n(&thread->ring_words, __ATOMIC_ACQUIRE);
    CHECK(head - tail <= size);
    while (tail != head) {
        uint64_t at = tail % size, left = size - at, words = record_words(ring[at]);
        if (ring[at] >> 56 == MALLOW_OP_PAD) {
            words = left;
        } else {
            CHECK(words <= left);
            append(&image->ring[index], ring + at, words);
        }
        CHECK(words <= head - tail);
        tail += words;
    }
    __atomic_store_n(&thread->tail, tail, __ATOMIC_SEQ_CST);
    if (__atomic_exchange_n(&thread->waiting, 0, __ATOMIC_SEQ_CST) != 0)
        futex_wake((uint32_t *)&thread->tail);
}

static void read_image(struct image *image) {
    const struct mallow_process *p = image->process;
    uint32_t modules = __atomic_load_n(&p->modules, __ATOMIC_ACQUIRE);
    CHECK(modules <= MALLOW_MAX_MODULES);
    for (uint32_t i = 0; i < modules; i++) {
        uint32_t wanted = MALLOW_MODULE_WANTED;
        if (__atomic_compare_exchange_n(&image->modules[i].status, &wanted, MALLOW_MODULE_WITHOUT, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            futex_wake(&image->modules[i].status);
    }
    uint32_t threads = __atomic_load_n(&p->threads, __ATOMIC_ACQUIRE);
    CHECK(threads <= p->max_threads && threads <= THREADS_MOST);
    for (uint32_t i = 0; p->mode == MALLOW_MODE_TRACE && i < threads; i++)
        read_ring(image, i);
}

static int older(const void *a, const void *b) {
    const struct image *left = a, *right = b;
    if (left->pid != right->pid)
        return left->process->start_ns < right->process->start_ns ? -1 : 1;
    return left->serial < right->serial ? -1 : 1;
}

static int is_known(const struct reading *reading, uint32_t pid, uint32_t serial) {
    for (unsigned i = 0; i < reading->images; i++)
        if (reading->image[i].pid == pid && reading->image[i].serial == serial)
            return 1;
    return 0;
}

static void open_image(struct reading *reading, const char *name, uint32_t pid, uint32_t serial) {
    char path[600];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", reading->directory, name);
    CHECK(stat(path, &status) == 0);
    if ((size_t)status.st_size < sizeof(struct mallow_process))
        return;
    struct mallow_process *process = map_file(path, (size_t)status.st_size);
    if (__atomic_load_n(&process->state, __ATOMIC_ACQUIRE) != MALLOW_PROCESS_READY) {
        munmap(process, (size_t)status.st_size);
        return;
    }
    CHECK(process->magic == MALLOW_PROCESS_MAGIC && process->version == MALLOW_WIRE_VERSION);
    CHECK(process->file_bytes == (uint64_t)status.st_size);
    CHECK(process->pid == pid && process->serial == serial);
    CHECK(reading->images < IMAGES_MOST);
    reading->image[reading->images++] = (struct image){
        .pid = pid,
        .serial = serial,
        .process = process,
        .modules = (struct mallow_module *)((char *)process + process->modules_offset),
        .threads = (struct mallow_thread *)((char *)process + process->threads_offset),
    };
}

static void read_once(struct reading *reading) {
    DIR *directory = opendir(reading->directory);
    CHECK(directory != NULL);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        unsigned pid, serial;
        if (sscanf(entry->d_name, "p-%u-%u", &pid, &serial) == 2 && !is_known(reading, pid, serial))
            open_image(reading, entry->d_name, pid, serial);
    }
    closedir(directory);
    for (unsigned i = 0; i < reading->images; i++)
        read_image(&reading->image[i]);
}

/* One turn of mallow's loop: sleeps on the doorbell for a millisecond at the
 * most, lets the clock tick, and reads. */
static void turn(struct reading *reading, uint32_t *seen) {
    struct timespec millisecond = {0, 1000000};
    syscall(SYS_futex, &reading->control->doorbell, FUTEX_WAIT, *seen, &millisecond, NULL, 0);
    if (reading->deaf)
        return;
    *seen = __atomic_load_n(&reading->control->doorbell, __ATOMIC_ACQUIRE);
    uint64_t epoch = reading->control->epoch;
    if (epoch != MALLOW_EPOCH_OVER)
        __atomic_store_n(&reading->control->epoch, epoch + 1, __ATOMIC_RELEASE);
    read_once(reading);
}

static void reading_until(struct reading *reading, int stopped) {
    uint32_t seen = reading->control->doorbell;
    for (;;) {
        pid_t done = waitpid(reading->pid, &reading->status, WNOHANG | WUNTRACED);
        CHECK(done >= 0);
        if (done == 0) {
            turn(reading, &seen);
            continue;
        }
        CHECK(WIFSTOPPED(reading->status) == stopped);
        read_once(reading);
        qsort(reading->image, reading->images, sizeof *reading->image, older);
        return;
    }
}

void reading_until_stopped(struct reading *reading) {
    reading_until(reading, 1);
}

void reading_continue(const struct reading *reading) {
    CHECK(kill(reading->pid, SIGCONT) == 0);
}

void reading_finish(struct reading *reading) {
    reading_until(reading, 0);
}

void reading_run(struct reading *reading, enum mallow_mode mode, const char *scenario) {
    reading_make(reading, mode);
    reading_start(reading, scenario, NULL);
    reading_finish(reading);
    CHECK(reading->status == 0);
}

struct image *reading_image(struct reading *reading, pid_t pid, uint32_t serial) {
    for (unsigned i = 0; i < reading->images; i++)
        if (reading->image[i].pid == (uint32_t)pid && reading->image[i].serial == serial)
            return &reading->image[i];
    test_failed(__FILE__, __LINE__, "the image has a file");
    return NULL;
}

struct image *reading_only(struct reading *reading) {
    CHECK(reading->images == 1);
    return &reading->image[0];
}

struct sums image_sums(const struct image *image) {
    struct sums sums = {0};
    for (uint32_t i = 0; i < image->process->threads; i++) {
        const struct mallow_thread *thread = &image->threads[i];
        for (int family = 0; family < MALLOW_FAMILY_COUNT; family++) {
            sums.counter[family].allocations += thread->counter[family].allocations;
            sums.counter[family].bytes += thread->counter[family].bytes;
        }
        sums.frees += thread->frees;
        sums.realloc_frees += thread->realloc_frees;
        sums.realloc_in_place += thread->realloc_in_place;
        sums.realloc_moved += thread->realloc_moved;
        sums.lost += thread->lost;
    }
    return sums;
}
