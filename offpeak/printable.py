"""What devices say, fit for one line of a terminal."""

ENOUGH = 200


def printable(text: str, *, enough: int = ENOUGH) -> str:
    """Return the text as one line without control characters, "?" for each, and not longer than an operator reads."""
    line = " ".join(text.split())[:enough]
    return line if line.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in line)
