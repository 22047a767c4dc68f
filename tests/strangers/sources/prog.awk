{ a[$1 % 5000] = a[$1 % 5000] $2 } END { for (k in a) n += length(a[k]); print n }
