/* Prints where fields of the wire are: STRUCT.FIELD OFFSET BYTES. Tests that look into a run directory ask here. */
#include "base/wire.h"

#include <stddef.h>
#include <stdio.h>

#define FIELD(structure, field)                                                                                        \
    printf("%s.%s %zu %zu\n", #structure, #field, offsetof(struct mallow_##structure, field),                          \
           sizeof(((struct mallow_##structure *)0)->field));

int main(void) {
    FIELD(control, epoch)
    FIELD(process, pid)
    FIELD(process, start_ns)
    FIELD(process, sampling)
    FIELD(sampling, begun)
    FIELD(sampling, ended)
    return 0;
}
