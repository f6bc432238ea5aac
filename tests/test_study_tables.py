"""Tables of figures on the pages come from docs/figures, and no such table is typed on a page."""

import ast
import csv
import re
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

import pytest
import study_tables

ROOT = Path(__file__).resolve().parents[1]
TESTS = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]

PAGES = sorted((ROOT / "docs").rglob("*.md"))
EXPLAINED = [path for path in PAGES if path.parent.name in ("explanation", "science")]
DEFINITIONS = {
    ("accounts", ""),
    ("comparison", ""),
    ("federation", "name"),
    ("federation", "figure"),
    ("metrics", "figure"),
    ("price-forecasts", "column"),
    ("price-forecasts", "what"),
    ("generate", "option"),
    ("scheduler-load", "what the agent sees"),
    ("scheduler-load", '`read = "rest"`'),
    ("sleeping", "alternative"),
    ("when-things-break", "event"),
    ("accounts", "basis"),
}
"""Tables of words with a number in some cell, by page and first header."""

BY_BENCHMARKS = (
    "federation/place-",
    "federation/sweeps",
    "fidelity/",
    "jobs/",
    "online-simulation/weeks",
    "ordering/",
    "profit-cooling/budgets",
    "profit-cooling/days",
    "profit-cooling/models",
    "site-2026/",
    "sleeping/better_rules",
    "sleeping/seen_ahead",
    "tests/",
    "waits/",
)
"""Tables that a benchmark or the run of the tests computes, and no study."""

FIGURE = re.compile(r"\d\.\d|\d %|\d,\d")
MARKUP = re.compile(r"`[^`]*`|\[[^]]*\]\([^)]*\)")


def test_tables_are_as_stored() -> None:
    changed = {page.name: differences(page.read_text(encoding="utf-8")) for page in PAGES}
    assert {page: lines for page, lines in changed.items() if lines} == {}


def differences(text: str) -> list[str]:
    """Return the lines of a page that differ from it with its tables as they are stored."""
    filled = study_tables.filled(text)
    return list(unified_diff(text.splitlines(keepends=True), filled.splitlines(keepends=True), n=0))


def test_each_stored_table_stands_on_a_page() -> None:
    shown = {place.name for page in PAGES for place in study_tables.places(page.read_text(encoding="utf-8"))}
    assert shown == stored_names()


def stored_names() -> set[str]:
    return {
        path.relative_to(study_tables.FIGURES).with_suffix("").as_posix()
        for path in study_tables.FIGURES.rglob("*.csv")
    }


def recomputed_names() -> set[str]:
    """Return the tables that some test names in full, as text of its own: such a test computes a part of it again."""
    names = stored_names()
    sources = [text for path in TESTS if any(name in (text := path.read_text(encoding="utf-8")) for name in names)]
    return names & {
        node.value
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_a_test_computes_a_part_of_each_stored_table_of_a_study_again() -> None:
    assert {name for name in stored_names() if not name.startswith(BY_BENCHMARKS)} - recomputed_names() == set()


def test_no_table_of_figures_is_typed() -> None:
    typed = {
        (page.stem, rows[0][0])
        for page in EXPLAINED
        for rows in tables(study_tables.PLACE.sub("", page.read_text(encoding="utf-8")))
        if any(map(has_figure, rows[1:]))
    }
    assert typed - DEFINITIONS == set()


def tables(text: str) -> Iterator[list[list[str]]]:
    for block in re.findall(r"^ *\|.*\n *\|[ :|-]+\|\n(?: *\|.*\n?)*", text, re.MULTILINE):
        yield [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in block.splitlines()]


def has_figure(row: list[str]) -> bool:
    return any(FIGURE.search(MARKUP.sub("", cell)) for cell in row)


def test_rows_and_columns_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_tables, "FIGURES", tmp_path)
    (tmp_path / "a").mkdir()
    with (tmp_path / "a/b.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["log", "saved", "paper"], ["KTH", "1.0", "2"], ["CTC", "3.0", "4"]])
    begin, end = "before\n\n<!-- table a/b where log=CTC leave-out paper -->\n", "<!-- end -->\n\nafter\n"
    assert study_tables.filled(f"{begin}old\n{end}") == f"{begin}\n| saved |\n|---|\n| 3.0 |\n\n{end}"


def test_a_report_of_a_study_is_stored_as_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, folder = tmp_path / "page.md", tmp_path / "out"
    folder.mkdir()
    page.write_text("<!-- table s/b -->\n<!-- end -->\n")
    reported = {"a": "| x |\n| --- |\n| 1 |\n", "b": "| y | z |\n| --- | --- |\n| 2 |  |\n"}
    text = "\n".join(f"## T\n\nnote\n\n<!-- table {name} -->\n\n{table}" for name, table in reported.items())
    (folder / "study.md").write_text(text)
    monkeypatch.setattr(study_tables, "DOCS", tmp_path)
    monkeypatch.setattr(study_tables, "FIGURES", tmp_path / "figures")
    study_tables.store("s", folder)
    assert [path.name for path in (tmp_path / "figures").rglob("*.csv")] == ["b.csv"]
    assert study_tables.stored("s/b") == [["y", "z"], ["2", ""]]
