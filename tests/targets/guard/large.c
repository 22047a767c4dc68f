/*
 * large LIVE ROUNDS: LIVE blocks of 53,000 bytes in bursts, each filled with its number and looked at before its free. Prints how many
 * were changed, and how many pairs have one address. There is no error in it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORDS = 53000 / sizeof(unsigned) };

int main(int count, char **words) {
    int live = count > 1 ? atoi(words[1]) : 300, rounds = count > 2 ? atoi(words[2]) : 5;
    unsigned **block = calloc((size_t)live, sizeof *block), number = 0, changed = 0, same = 0;
    for (int round = 0; round < rounds; round++) {
        unsigned first = number;
        for (int i = 0; i < live; i++) {
            block[i] = malloc(WORDS * sizeof **block);
            block[i][0] = block[i][WORDS - 1] = number++;
        }
        for (int i = 0; i < live; i++)
            for (int j = 0; j < i; j++)
                same += block[i] == block[j];
        for (int i = 0; i < live; i++)
            changed += block[i][0] != first + (unsigned)i || block[i][WORDS - 1] != first + (unsigned)i;
        for (int i = 0; i < live; i++)
            free(block[i]);
        usleep(20000);
    }
    printf("changed %u, same %u\n", changed, same);
    return 0;
}
