"""Files of /sys: one line each, which may be missing or forbidden."""

from pathlib import Path


def line_of(file: Path) -> str:
    """Return the file's first line, "" if it cannot be read."""
    try:
        with file.open(encoding="ascii", errors="replace") as lines:
            return lines.readline().strip()
    except OSError:
        return ""


def number_of(text: str) -> int | None:
    """Return a counter's value, None for what is no whole number of zero or more."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
