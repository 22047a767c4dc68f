"""parse_json.py FILE [ROUNDS]: parse a JSON file as often as asked, and say what was in it.

Run it with PYTHONMALLOC=malloc: Python's own allocator otherwise serves small objects from pages that it got at once,
and neither malloc nor a tool that watches malloc hears of them.
"""

import json
import sys


def parse(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def values(document):
    """How many values the document holds, itself included."""
    if isinstance(document, dict):
        return 1 + sum(values(value) for value in document.values())
    if isinstance(document, list):
        return 1 + sum(values(value) for value in document)
    return 1


def main(arguments):
    if len(arguments) not in (2, 3):
        print("usage: parse_json.py FILE [ROUNDS]", file=sys.stderr)
        return 2
    total = 0
    for _ in range(int(arguments[2]) if len(arguments) == 3 else 1):
        total += values(parse(arguments[1]))
    print(f"{total} values")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
