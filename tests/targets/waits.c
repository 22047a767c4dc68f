/* waits MS: lives so long, and does nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments) {
    usleep(count > 1 ? (useconds_t)atoi(arguments[1]) * 1000 : 0);
    puts("waited");
    return 0;
}
