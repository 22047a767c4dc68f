#!/bin/sh
# Builds libmallow.so: preload/build.sh OUTPUT [ROOM…]. Without rooms it is the whole library. The only thing it links is
# the C library.
set -e
here=$(dirname "$0")
output=$1
shift
cc=${CC:-cc}
processor=$("$cc" -dumpmachine | cut -d - -f 1)
rooms=${*:-count walk trace sample measure}
set --
for room in $rooms; do
    set -- "$@" "$here/$room"/*.c
done
exec "$cc" -std=c11 -D_GNU_SOURCE -O2 -g1 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden \
    -fno-stack-protector -fno-plt -falign-functions=64 -fno-reorder-blocks-and-partition -fno-tree-vectorize -fcf-protection=none -fasynchronous-unwind-tables \
    -Wl,-z,now -Wl,-z,relro -Wl,-z,defs -Wl,-soname,libmallow.so -Wl,--build-id=sha1 -Wl,--hash-style=gnu \
    -I "$here" -I "$here/arch/$processor" -o "$output" "$here"/base/*.c "$@"
