#!/bin/sh
# Builds libmallow.so: preload/build.sh OUTPUT [CC]. The only thing it links is the C library.
set -e
here=$(dirname "$0")
output=$1
cc=${2:-${CC:-cc}}
exec "$cc" -std=c11 -D_GNU_SOURCE -O2 -g1 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden \
    -fno-stack-protector -fno-plt -falign-functions=64 -fno-reorder-blocks-and-partition -fno-tree-vectorize -fcf-protection=none -fasynchronous-unwind-tables \
    -Wl,-z,now -Wl,-z,relro -Wl,-z,defs -Wl,-soname,libmallow.so -Wl,--build-id=sha1 -Wl,--hash-style=gnu \
    -o "$output" "$here"/entry.c "$here"/real.c "$here"/init.c "$here"/process.c "$here"/thread.c "$here"/modules.c \
    "$here"/unwind.c "$here"/unwind_full.c "$here"/ring.c "$here"/reader.c "$here"/numbers.c "$here"/stacks.c "$here"/count.c "$here"/measure.c "$here"/order.c "$here"/tracer.c "$here"/trace.c "$here"/lost.c "$here"/sample.c "$here"/pick.c "$here"/sampler.c "$here"/filter.c "$here"/ending.c "$here"/sample_probes.c "$here"/slots.c "$here"/book.c \
    "$here"/exec.c "$here"/draw.c "$here"/sys.c
