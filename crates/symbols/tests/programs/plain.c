#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct node *next;
    char *text;
};

static inline char *copy(const char *text)
{
    size_t length = strlen(text) + 1;
    char *result = malloc(length);
    if (!result)
        abort();
    return memcpy(result, text, length);
}

static inline struct node *push(struct node *list, const char *text)
{
    struct node *node = malloc(sizeof *node);
    node->next = list;
    node->text = copy(text);
    return node;
}

__attribute__((noinline)) static int internal(struct node *list)
{
    int count = 0;
    for (; list; list = list->next)
        count += printf("%s\n", list->text);
    return count;
}

__attribute__((noinline)) int exported(int argc, char **argv)
{
    struct node *list = NULL;
    for (int i = 0; i < argc; i++)
        list = push(list, argv[i]);
    return internal(list);
}

int main(int argc, char **argv)
{
    return exported(argc, argv) == 0;
}
