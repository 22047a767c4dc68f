/*
 * A list that only a callee-saved register of main has, which the functions between it and malloc push: 500 nodes and their head. main returns,
 * and nothing has them any more, whatever a profiler remembers of the stacks that malloc was called with.
 */
#include <stdlib.h>

struct node {
    struct node *next;
    char text[80];
};

struct list {
    struct node *first;
    unsigned long count;
};

__attribute__((noinline, noclone)) static void lost_node(struct list *list) {
    struct node *node = malloc(sizeof *node);
    if (node == NULL)
        abort();
    node->next = list->first;
    list->first = node;
    list->count++;
}

__attribute__((noinline, noclone)) static void read_some(struct list *list, int count) {
    for (int i = 0; i < count; i++)
        lost_node(list);
}

int main(void) {
    struct list *list = calloc(1, sizeof *list);
    if (list == NULL)
        return 2;
    for (int i = 0; i < 20; i++)
        read_some(list, 25);
    return list->count != 500;
}
