"""Pieces of HTML. Text becomes HTML here and nowhere else, so a job's name can never be markup."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class HtmlCell:
    """A figure in a table: below it in small its interval, beside it a mark such as "noise"."""

    text: str
    interval: str = ""
    mark: str = ""


def paragraph(text: str, *, css_class: str = "") -> str:
    """Return a paragraph."""
    return f'<p class="{css_class}">{escape(text)}</p>' if css_class else f"<p>{escape(text)}</p>"


def section(heading: str, *parts: str) -> str:
    """Return a section under its heading."""
    return "\n".join(["<section>", f"<h2>{escape(heading)}</h2>", *parts, "</section>"])


def bullets(lines: Iterable[str]) -> str:
    """Return a list."""
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def definitions(terms: Iterable[tuple[str, str]]) -> str:
    """Return a list of terms with their definitions."""
    return "<dl>" + "".join(f"<div><dt>{escape(t)}</dt><dd>{escape(d)}</dd></div>" for t, d in terms) + "</dl>"


def table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[HtmlCell]], *, texts: int = 1) -> str:
    """Return a table whose first column names its rows; the first `texts` columns are text, the others figures.

    It scrolls by itself where it is wider than the page.
    """
    head = "".join(_head(header, is_text=at < texts) for at, header in enumerate(headers))
    body = "".join(_row(row, texts) for row in rows)
    label = escape(caption, quote=True)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table><caption>{escape(caption)}'
        f"</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _head(header: str, *, is_text: bool) -> str:
    return f'<th scope="col"{_text_class(is_text)}>{escape(header)}</th>'


def _row(row: Sequence[HtmlCell], texts: int) -> str:
    first, *others = row
    cells = "".join(f"<td{_text_class(at < texts)}>{_cell(cell)}</td>" for at, cell in enumerate(others, 1))
    return f'<tr><th scope="row" class="text">{_cell(first)}</th>{cells}</tr>'


def _text_class(is_text: bool) -> str:
    return ' class="text"' if is_text else ""


def _cell(cell: HtmlCell) -> str:
    interval = f" <small>({escape(cell.interval)})</small>" if cell.interval else ""
    mark = f" <em>{escape(cell.mark)}</em>" if cell.mark else ""
    return escape(cell.text) + interval + mark
