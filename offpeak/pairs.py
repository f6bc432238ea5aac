"""Text such as "on=90EUR/MWh,off=30EUR/MWh": key=value pairs, as tariffs and file layouts are declared."""

from collections.abc import Sequence

from offpeak.errors import BadInput
from offpeak.suggest import did_you_mean


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
