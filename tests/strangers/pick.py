"""Which commands a seed picks."""

import random


def pick(rows, seed, count):
    """So many rows. The languages take turns, so that a small pick has several; the same seed picks the same."""
    chance = random.Random(seed)
    by_language = {}
    for row in rows:
        by_language.setdefault(row.language, []).append(row)
    for group in by_language.values():
        chance.shuffle(group)
    # A language with many commands has its turn more often, so that all commands are equally likely in the long run.
    order = []
    for group in by_language.values():
        order.extend(((place + chance.random()) / len(group), row) for place, row in enumerate(group))
    order.sort(key=lambda pair: pair[0])
    return [row for _, row in order[:count]]
