"""The frame, the texts and the legends that the SVG figures of the studies share, and their colours."""

from collections.abc import Iterable, Mapping
from html import escape


def text(words: str, x: float, y: float, *, anchor: str = "start") -> str:
    """Return a line of text."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def legend_at(colours: Mapping[str, str], x: float, y: float) -> str:
    """Return names, each behind a dot of its colour."""
    return "".join(
        f'<circle cx="{x + 150 * at}" cy="{y - 4}" r="5" fill="{colour}"/>{text(name, x + 10 + 150 * at, y)}'
        for at, (name, colour) in enumerate(colours.items())
    )


WIDTH = 900
POLICY_COLOURS = {"all processors": "#777777", "two-level": "#1f62a8", "OLS": "#c4570b"}
LOG_COLOURS = ("#1f62a8", "#c4570b", "#3a7d2c", "#8a3fa0")


def svg(height: int, parts: Iterable[str]) -> str:
    """Return an SVG text of that height with these parts on white."""
    style = 'font-family="sans-serif" font-size="13" fill="#222"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' {style}><rect width="{WIDTH}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def title(text: str, x: float, y: float) -> str:
    """Return a bold line of text."""
    return f'<text x="{x}" y="{y}" font-size="15" font-weight="bold">{escape(text)}</text>'


def legend_row(colours: dict[str, str], y: float) -> str:
    """Return the names of the series, each behind a dot of its colour."""
    return "".join(
        f'<circle cx="{20 + 200 * at}" cy="{y - 4}" r="5" fill="{colour}"/>'
        f'<text x="{30 + 200 * at}" y="{y}">{escape(name)}</text>'
        for at, (name, colour) in enumerate(colours.items())
    )


def tick_step(span: float) -> float:
    """Return a round distance of grid lines, 1, 2 or 5 times a power of ten, that makes about five of a span."""
    step = 10.0 ** int(f"{max(span, 1e-9) / 5:e}".partition("e")[2])
    return next(step * times for times in (1, 2, 5, 10) if span / (step * times) <= 5)
