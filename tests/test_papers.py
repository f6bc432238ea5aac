"""The page of all tables and figures: each link leads to a page and a heading, and no item of the papers is missing."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "science" / "papers.md"
LINKS = sorted(set(re.findall(r"\]\(([\w-]+\.md)(?:#([\w-]+))?\)", PAGE.read_text(encoding="utf-8"))))


def anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", (PAGE.parent / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading).lower()) for heading in headings}


def test_a_link_leads_to_its_section() -> None:
    assert [f"{page}#{heading}" for page, heading in LINKS if heading and heading not in anchors(page)] == []


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


def test_each_numbered_table_and_figure_is_listed() -> None:
    counts = {
        "Online simulation": (1, 8),
        "Energy and carbon": (0, 17),
        "Day-ahead markets": (8, 11),
        "Profit and cooling": (3, 8),
    }
    for title, (tables, figures) in counts.items():
        section = PAGE.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
        assert numbered("Figure", section) == {str(number) for number in range(1, figures + 1)}, title
        roman = {"I", "II", "III", "IV", "VI", "VII", "VIII", "IX"}
        expected = {str(number) for number in range(1, tables + 1)} if tables else roman
        assert numbered("Table", section) == expected, title
