"""Fill the tables of figures on the pages from the files in docs/figures: `make reference`.

A page has `<!-- table STUDY/NAME -->`, the table, and `<!-- end -->`. The cells are from `docs/figures/STUDY/NAME.csv`.
`where COLUMN=VALUE` after the name keeps the rows with that value, without the column; `leave-out COLUMN` leaves out a
column. After a study has run, `python docs/study_tables.py STUDY FOLDER` stores the tables of its `study.md` there.
"""

import csv
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parent
FIGURES = DOCS / "figures"
REPORTED = re.compile(r"^<!-- table (?P<name>\S+) -->\n\n(?P<table>(?:\|.*\n)+)", re.MULTILINE)
PLACE = re.compile(
    r"(?P<begin><!-- table (?P<name>\S+?)(?P<options>(?: (?:where|leave-out) .+?)*) -->\n)"
    r"(?P<table>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)
OPTION = re.compile(r" (where|leave-out) (.+?)(?= where | leave-out |$)")


class Place(NamedTuple):
    """A place of a page for a table: the name of its file, and the table as Markdown that belongs there."""

    name: str
    table: str


def pages() -> Iterator[Path]:
    """Yield the pages that may have tables of figures."""
    yield from sorted(DOCS.rglob("*.md"))


def stored(name: str) -> list[list[str]]:
    """Return headers and rows of a stored table. Raises FileNotFoundError if there is none."""
    with (FIGURES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def places(text: str) -> Iterator[Place]:
    """Yield the places of a page, with the tables that belong there. Raises ValueError for an unknown column."""
    for place in PLACE.finditer(text):
        yield Place(place["name"], _table_of(place))


def filled(text: str) -> str:
    """Return a page with its tables as they are stored."""
    return PLACE.sub(lambda place: f"{place['begin']}\n{_table_of(place)}\n{place['end']}", text)


def _table_of(place: re.Match[str]) -> str:
    headers, *rows = stored(place["name"])
    left_out = set()
    for kind, value in OPTION.findall(place["options"]):
        column, _, wanted = value.partition("=")
        at = headers.index(column)
        left_out.add(at)
        if kind == "where":
            rows = [row for row in rows if row[at] == wanted]
    return markdown([[cell for at, cell in enumerate(row) if at not in left_out] for row in [headers, *rows]])


def markdown(lines: list[list[str]]) -> str:
    """Return headers and rows as a table of Markdown."""
    first, *rows = ["| " + " | ".join(line) + " |\n" for line in lines]
    return "".join([first, "|" + "---|" * len(lines[0]) + "\n", *rows])


def store(study: str, folder: Path) -> None:
    """Store the tables of a study's report that pages show."""
    shown = {place["name"] for page in pages() for place in PLACE.finditer(page.read_text(encoding="utf-8"))}
    for found in REPORTED.finditer((folder / "study.md").read_text(encoding="utf-8")):
        if (name := f"{study}/{found['name']}") not in shown:
            continue
        headers, _, *rows = ([cell.strip() for cell in line[1:-1].split(" | ")] for line in found["table"].splitlines())
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([headers, *rows])
        path = FIGURES / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.getvalue(), encoding="utf-8")


def main() -> None:
    """Store the tables of a study if one is named, and fill all pages."""
    if len(sys.argv) > 1:
        store(sys.argv[1], Path(sys.argv[2]))
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
