// Two functions, each of which requests as many blocks as the command line says: loads USERS ORDERS. With -DMORE there is a line more,
// with -DRENAMED one of them has another name.
#include <stdlib.h>

#ifdef MORE
int more = 1;
#endif
#ifdef RENAMED
#define load_orders load_invoices
#endif

static void *volatile user, *volatile order;

__attribute__((noinline)) static void load_users(int number) {
    for (int at = 0; at < number; at++) {
        user = malloc(120);
    }
}

__attribute__((noinline)) static void load_orders(int number) {
    for (int at = 0; at < number; at++) {
        order = malloc(120);
    }
}

int main(int count, char **arguments) {
    load_users(count > 1 ? atoi(arguments[1]) : 0);
    load_orders(count > 2 ? atoi(arguments[2]) : 0);
    return 0;
}
