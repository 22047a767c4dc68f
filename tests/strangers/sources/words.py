import collections
import re


def words(path):
    c = collections.Counter()
    for line in open(path):
        c.update(re.findall("[a-z]+", line))
    return c


if __name__ == "__main__":
    import sys

    print(len(words(sys.argv[1])))
