"""Amounts as Mallow's text writes them, and whether a number of its JSON is written so.

An amount stands for all numbers that round to it. DEFINITIONS.md and the guide show the forms; nothing here is
taken from Mallow's own formatting.
"""

import re

PREFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
NUMBER = r"-?[0-9][0-9,]*(?:\.[0-9]+)?"
PATTERNS = {
    "count": r"-?[0-9][0-9,]*",
    "bytes": rf"{NUMBER} [kMGT]?B",
    "rate": rf"{NUMBER} [kMG]?/s",
    "share": r"(?:all|[<>]?[0-9]+(?:\.[0-9]+)? %)",
    "span": r"(?:[0-9]+ h [0-9]+ min|[0-9]+ min [0-9]+ s|[0-9]+(?:\.[0-9]+)? m?s)",
    "seconds": r"[0-9]+\.[0-9]+ s",
    "word": r"\S+",
    "words": r".+?",
}
"""What an amount of each kind looks like."""


def _plain(text):
    return float(text.replace(",", ""))


def _rounded(text, unit=1.0):
    """The least and the largest number that is written so, in units."""
    decimals = len(text.partition(".")[2])
    half = 0.5 * 10**-decimals
    # Halves may be rounded either way, and floating point is not decimal.
    return (_plain(text) - half - 1e-9) * unit, (_plain(text) + half + 1e-9) * unit


def limits(kind, text):
    """The least and the largest number that an amount stands for; bytes, shares from 0 to 1, milliseconds, counts."""
    if kind == "count":
        return _plain(text), _plain(text)
    if kind in ("bytes", "rate"):
        number, unit = text.split(" ")
        prefix = unit.removesuffix("B").removesuffix("/s")
        if kind == "bytes" and not prefix:
            return _plain(number), _plain(number)
        return _rounded(number, PREFIXES[prefix])
    if kind == "share":
        if text == "all":
            return 1.0, 1.0
        number = text.removesuffix(" %")
        if number.startswith("<"):
            return 1e-300, float(number[1:]) / 100
        if number.startswith(">"):
            return float(number[1:]) / 100, 1 - 1e-12
        low, high = _rounded(number, 0.01)
        # "0 %" and "100.0 %" are said of nothing and of all alone.
        return (0.0, 0.0) if float(number) == 0 else (1.0, high) if number == "100.0" else (low, high)
    if kind == "span":
        return _span(text)
    if kind == "seconds":
        low, high = _rounded(text.removesuffix(" s"), 1000.0)
        return low, high
    raise ValueError(kind)


def _span(text):
    words = text.split(" ")
    if words[-1] == "ms":
        return float(words[0]), float(words[0])
    if len(words) == 2:
        # Cut, not rounded: both are accepted.
        step = 1000 * 10 ** -len(words[0].partition(".")[2])
        return float(words[0]) * 1000 - step / 2 - 1e-6, float(words[0]) * 1000 + step
    scale = {"h": 3_600_000, "min": 60_000, "s": 1000}
    total = sum(float(number) * scale[unit] for number, unit in zip(words[::2], words[1::2], strict=True))
    return total - scale[words[-1]] / 2, total + scale[words[-1]]


def is_written(kind, text, value):
    """Does this amount stand for the value?"""
    if kind in ("word", "words"):
        return text == str(value)
    if value is None:
        return False
    low, high = limits(kind, text)
    return low <= value <= high


def find(kind, text):
    """All amounts of a kind in a text."""
    return re.findall(rf"(?<![\w.]){PATTERNS[kind]}(?![\w])", text)
