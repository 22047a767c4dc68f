#include <stdlib.h>

static int one(void) { return 1; }
static int two(void) { return 2; }
static void *choose(void) { return getenv("TWO") ? (void *)two : (void *)one; }
int chosen(void) __attribute__((ifunc("choose")));

int main(void)
{
    return chosen();
}
