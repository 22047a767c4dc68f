"""Reads sentences: a rule is a sentence with places for amounts, each with the name of the fact that it should state.

`live at peak {count:peak} {bytes:peak_bytes}` reads a line and yields (kind, amount, fact) for each place. Everything
else of a rule is a regular expression, in which a space is any amount of space.
"""

import re
from functools import cache

from amounts import PATTERNS, is_written

PLACE = re.compile(r"\{([a-z]+):([a-z_]+)\}")


@cache
def compiled(rule):
    """The regular expression of a rule, and the (kind, fact) of its groups."""
    places, pieces, at = [], [], 0
    for match in PLACE.finditer(rule):
        pieces.append(rule[at : match.start()].replace(" ", r"\s+"))
        places.append((match[1], match[2]))
        pieces.append(f"({PATTERNS[match[1]]})")
        at = match.end()
    pieces.append(rule[at:].replace(" ", r"\s+"))
    pattern = re.compile("".join(pieces))
    if pattern.groups != len(places):
        raise ValueError(f"a group of its own: {rule}")
    return pattern, places


def read(rule, sentence):
    """What a sentence says by this rule: a list of (kind, amount, fact). None if it is another sentence."""
    pattern, places = compiled(rule)
    match = pattern.fullmatch(sentence.strip())
    if match is None:
        return None
    # An optional part that is not there has no amount.
    return [(kind, amount, fact) for (kind, fact), amount in zip(places, match.groups()) if amount is not None]


def wrong(said, facts):
    """The amounts that do not state their fact: pairs of what was said and what is right."""
    for kind, amount, fact in said:
        right = facts.get(fact, "unknown")
        values = right if isinstance(right, (list, set, tuple)) else [right]
        if right == "unknown" or not any(is_written(kind, amount, value) for value in values):
            yield f"{amount} as {fact}", f"{right}"


def check(sentence, rules, facts):
    """None if no rule reads the sentence, else what is wrong by the rule that fits it best."""
    best = None
    for rule in rules:
        said = read(rule, sentence)
        if said is not None:
            found = list(wrong(said, facts))
            if best is None or len(found) < len(best):
                best = found
    return best
