/* What two functions of a small parser allocate, for `mallow test`; examples/mallow.toml names the cases. */
#include <mallow.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char text[] = "width=80;height=24;title=a terminal;colour=yes";

struct setting {
    char *name, *value;
};

/* One allocation for each name and each value, and one for the array, which grows. */
static struct setting *parse(const char *from, int *count) {
    struct setting *settings = NULL;
    *count = 0;
    while (*from != 0) {
        size_t name = strcspn(from, "="), value = strcspn(from + name + 1, ";");
        if (*count % 4 == 0)
            settings = realloc(settings, ((size_t)*count + 4) * sizeof *settings);
        settings[*count].name = strndup(from, name);
        settings[*count].value = strndup(from + name + 1, value);
        ++*count;
        from += name + 1 + value;
        from += *from == ';';
    }
    return settings;
}

static long measure_parse(void *unused) {
    long operations = mallow_operations(1000);
    (void)unused;
    for (long i = 0; i < operations; i++) {
        int count;
        struct setting *settings = parse(text, &count);
        for (int s = 0; s < count; s++) {
            free(settings[s].name);
            free(settings[s].value);
        }
        free(settings);
    }
    return operations;
}

/* Looks a value up where it stands: nothing is allocated. */
static const char *find(const char *from, const char *name, size_t *length) {
    size_t wanted = strlen(name);
    for (; from != NULL; from = strchr(from, ';'), from += from != NULL)
        if (strncmp(from, name, wanted) == 0 && from[wanted] == '=') {
            *length = strcspn(from + wanted + 1, ";");
            return from + wanted + 1;
        }
    return NULL;
}

static long measure_find(void *unused) {
    long operations = mallow_operations(1000);
    size_t length = 0;
    (void)unused;
    for (long i = 0; i < operations; i++)
        if (find(text, "title", &length) == NULL)
            return -1;
    return operations;
}

int main(void) {
    mallow_measure("parse", measure_parse, NULL);
    mallow_measure("find", measure_find, NULL);
    return 0;
}
