#!/bin/sh
# Builds libmallow.so: preload/build.sh OUTPUT [TABLE ROOM...]. TABLE is the file that lists the policies of the build; without
# one it is the whole library. The only thing it links is the C library,
# whichever that is where it is loaded.
set -e
here=$(dirname "$0")
output=$1
table=${2:-$here/policies.c}
[ $# -lt 2 ] || shift
shift
rooms=${*:-count walk trace sample inplace guard measure scan hook attach}
cc=${CC:-cc}
processor=$("$cc" -dumpmachine | cut -d - -f 1)
set -- "$table" "$here/arch/$processor"/*.c
for room in base $rooms; do
    set -- "$@" "$here/$room"/*.c
done
# What it is linked against has the C library's names and no versions of them: link/libc.c says why.
stubs=$output.stubs
mkdir -p "$stubs"
for soname in libc.so.6 libdl.so.2; do
    stub=${soname%%.*}
    "$cc" -O0 -w -fno-builtin -fPIC -shared -nostdlib -Wl,-soname,"$soname" -o "$stubs/$stub.so" "$here/link/$stub.c"
done
"$cc" -std=c11 -D_GNU_SOURCE -O2 -g1 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden \
    -fno-stack-protector -fno-plt -falign-functions=64 -fno-reorder-blocks-and-partition -fno-tree-vectorize -fcf-protection=none -fasynchronous-unwind-tables \
    -Wl,-z,initfirst -Wl,-z,now -Wl,-z,relro -Wl,-z,defs -Wl,-soname,libmallow.so -Wl,--build-id=sha1 -Wl,--hash-style=gnu \
    -nodefaultlibs -I "$here" -I "$here/arch/$processor" -o "$output" "$@" \
    -L "$stubs" -Wl,--no-as-needed -ldl -lc -lgcc
rm -r "$stubs"
