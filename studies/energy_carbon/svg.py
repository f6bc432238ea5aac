"""What the figures have in common: the frame of an SVG text, and the keys of its colours."""

from collections.abc import Iterable, Mapping
from html import escape

WIDTH = 900


def svg(height: int, parts: Iterable[str]) -> str:
    """Return an SVG text of that height with these parts on white."""
    style = 'font-family="sans-serif" font-size="13" fill="#222"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' {style}><rect width="{WIDTH}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def text(words: str, x: float, y: float, *, anchor: str = "start") -> str:
    """Return a line of text."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def keys(colours: Mapping[str, str], x: float, y: float) -> str:
    """Return names, each behind a dot of its colour."""
    return "".join(
        f'<circle cx="{x + 150 * at}" cy="{y - 4}" r="5" fill="{colour}"/>{text(name, x + 10 + 150 * at, y)}'
        for at, (name, colour) in enumerate(colours.items())
    )
