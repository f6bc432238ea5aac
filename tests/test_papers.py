"""The page of all tables and figures: each link leads to a page and a heading, and no item of the papers is missing."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "papers.md"
LINKS = sorted(set(re.findall(r"\]\(([\w-]+\.md)(?:#([\w-]+))?\)", PAGE.read_text(encoding="utf-8"))))


def anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", (PAGE.parent / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading).lower()) for heading in headings}


@pytest.mark.parametrize(("page", "heading"), LINKS)
def test_a_link_leads_to_its_section(page: str, heading: str) -> None:
    assert not heading or heading in anchors(page)


def numbered(kind: str, section: str) -> set[str]:
    found = set()
    for cell in re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE):
        for first, word, last in re.findall(rf"{kind}s? (\w+)(?: (to|and) (\w+))?", cell):
            found |= (
                {str(n) for n in range(int(first), int(last) + 1)}
                if word == "to" and first.isdigit()
                else {first, last}
            )
        found |= set(re.findall(r", (\d+)$", cell)) if kind in cell else set()
    return found - {""}


@pytest.mark.parametrize(
    ("title", "tables", "figures"),
    [
        ("Online simulation", 1, 8),
        ("Energy and carbon", 0, 17),
        ("Day-ahead markets", 8, 11),
        ("Profit and cooling", 3, 8),
    ],
)
def test_each_numbered_table_and_figure_is_listed(title: str, tables: int, figures: int) -> None:
    section = PAGE.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
    assert numbered("Figure", section) == {str(number) for number in range(1, figures + 1)}
    if tables:
        assert numbered("Table", section) == {str(number) for number in range(1, tables + 1)}
    else:
        assert numbered("Table", section) == {"I", "II", "III", "IV", "VI", "VII", "VIII", "IX"}
