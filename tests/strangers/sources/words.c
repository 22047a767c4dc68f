#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct node {
    struct node *next;
    char *word;
    int count;
};
static struct node *table[1024];
static unsigned hash(const char *s) {
    unsigned h = 5381;
    while (*s)
        h = h * 33 + (unsigned char)*s++;
    return h % 1024;
}
static struct node *lookup(const char *word) {
    for (struct node *n = table[hash(word)]; n; n = n->next)
        if (!strcmp(n->word, word))
            return n;
    struct node *n = calloc(1, sizeof *n);
    n->word = strdup(word);
    n->next = table[hash(word)];
    return table[hash(word)] = n;
}
int main(void) {
    char word[256];
    long all = 0;
    while (scanf("%255s", word) == 1) {
        lookup(word)->count++;
        all++;
    }
    printf("%ld\n", all);
    return 0;
}
