"""What a hint says when a word is not known: the nearest known word, or all of them."""

from collections.abc import Iterable
from difflib import get_close_matches

LISTED = 12


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "did you mean X?", or the `known` words (the first of many) where none is near."""
    words = sorted(set(known))
    by_folded = {name.casefold(): name for name in words}
    near = get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    if near:
        return f"did you mean {by_folded[near[0]]}?"
    listed = words if len(words) <= LISTED else [*words[:LISTED], f"... ({len(words)} in all)"]
    return "known: " + ", ".join(listed)
