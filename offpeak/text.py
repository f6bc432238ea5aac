"""Small texts: counts in sentences, one printable line, the hint for an unknown name, and key=value pairs.

Tariffs and file layouts are declared as pairs, such as "on=90EUR/MWh,off=30EUR/MWh". A device's answer is made
printable before a terminal or a log shows it.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from offpeak.errors import BadInput


def counted(count: int, noun: str) -> str:
    """Return the count with its noun, in the plural unless it is one."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def natural_key(text: str) -> list[tuple[bool, int, str]]:
    """Return a key that sorts numbers within names by their value: p1, p2, p10."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in _DIGITS.split(text)]


_DIGITS = re.compile(r"(\d+)")

ENOUGH = 200


def printable(text: str, *, enough: int = ENOUGH) -> str:
    """Return the text as one line without control characters, "?" for each, and not longer than an operator reads."""
    line = " ".join(text.split())[:enough]
    return line if line.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in line)


LISTED, LONGEST_LIST = 12, 600


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean X?", or the `known` words (the first of many) where none is near."""
    names = sorted(set(known))
    by_folded = {known_name.casefold(): known_name for known_name in names}
    near = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    if near:
        return f"did you mean {by_folded[near[0]]}?"
    return f"known: {listed(names)}"


def listed(names: Sequence[str]) -> str:
    """Return the names with commas, the first of many."""
    shown = names if len(names) <= LISTED else [*names[:LISTED], f"... ({len(names)} in all)"]
    return printable(", ".join(shown), enough=LONGEST_LIST)


def parse_pairs(text: str, *, known: Sequence[str], error: type[BadInput]) -> dict[str, str]:
    """Return the pairs of `text`; `error` for an unknown or repeated key and for a part without `=` or value."""
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise error(f"{part!r} in {text!r} is not key=value", hint=f"write it like {key or known[0]}=...")
        if key not in known:
            raise error(f"unknown key {key!r} in {text!r}", hint=did_you_mean(key, known))
        if key in pairs:
            raise error(f"{key!r} is given twice in {text!r}", hint="keep one of them")
        pairs[key] = value
    return pairs
