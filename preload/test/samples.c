/* See samples.h. */
#include "samples.h"
#include "test.h"

void samples_make(struct reading *reading, uint64_t period) {
    reading_make(reading, MALLOW_MODE_SAMPLE);
    reading->control->period = period;
    reading->control->stack_bytes = 1 << 20;
    reading->control->max_slots = 1 << 14;
    reading->control->max_ends = 1 << 12;
}

struct mallow_sampling *samples_of(const struct image *image) {
    CHECK(image->process->sampling != 0);
    return (struct mallow_sampling *)((char *)image->process + image->process->sampling);
}

static const struct mallow_slot *slots_of(const struct image *image) {
    return (const struct mallow_slot *)((const char *)image->process + samples_of(image)->slots_offset);
}

uint32_t samples_live(const struct image *image) {
    uint32_t live = 0;
    for (uint32_t i = 0; i < samples_of(image)->slots; i++)
        live += (slots_of(image)[i].sequence & 3) == MALLOW_SLOT_LIVE;
    return live;
}

const struct mallow_slot *sample_live(const struct image *image, uint32_t number) {
    for (uint32_t i = 0; i < samples_of(image)->slots; i++)
        if ((slots_of(image)[i].sequence & 3) == MALLOW_SLOT_LIVE && number-- == 0)
            return &slots_of(image)[i];
    test_failed(__FILE__, __LINE__, "there are so many");
}

const struct mallow_end *sample_end(const struct image *image, uint64_t number) {
    const struct mallow_sampling *s = samples_of(image);
    const struct mallow_end *ends = (const struct mallow_end *)((const char *)image->process + s->ends_offset);
    CHECK(number >= 1 && number <= s->ended);
    const struct mallow_end *end = &ends[(number - 1) % s->max_ends];
    CHECK(end->number == number);
    return end;
}

const struct mallow_stack *sample_stack(const struct image *image, uint32_t stack) {
    const struct mallow_sampling *s = samples_of(image);
    CHECK(stack != 0 && 8ull * stack + sizeof(struct mallow_stack) <= s->stacks_used);
    const struct mallow_stack *at =
        (const struct mallow_stack *)((const char *)image->process + s->stacks_offset + 8ull * stack);
    CHECK(at->depth > 0 && 8ull * stack + sizeof *at + 8ull * at->depth <= s->stacks_used);
    return at;
}

static const char *const families[] = {"malloc",   "calloc",         "realloc", "reallocarray", "aligned_alloc",
                                       "memalign", "posix_memalign", "valloc",  "pvalloc"};

const char *samples_text(const struct image *image) {
    static char text[8192];
    size_t at = 0;
    text[0] = 0;
    for (uint64_t number = 1; number <= samples_of(image)->ended; number++) {
        const struct mallow_end *end = sample_end(image, number);
        CHECK(end->sample.family < MALLOW_FAMILY_COUNT && (end->sample.sequence & 3) == MALLOW_SLOT_LIVE);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %llu %s", at > 0 ? "; " : "",
                               families[end->sample.family], (unsigned long long)end->sample.size,
                               end->kind == MALLOW_END_FREED ? "freed" : "reallocated");
        CHECK(at < sizeof text);
    }
    for (uint32_t i = 0; i < samples_live(image); i++) {
        const struct mallow_slot *slot = sample_live(image, i);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s[%s %llu]", at > 0 ? "; " : "", families[slot->family],
                               (unsigned long long)slot->size);
        CHECK(at < sizeof text);
    }
    return text;
}

void samples_check_losses(const struct image *image) {
    const struct mallow_sampling *s = samples_of(image);
    uint32_t inherited = 0;
    for (uint32_t i = 0; i < samples_live(image); i++)
        inherited += sample_live(image, i)->flags & MALLOW_SAMPLE_INHERITED;
    if (image->process->origin == MALLOW_ORIGIN_EXEC)
        CHECK(inherited == 0 && s->begun == s->ended + samples_live(image));
}
