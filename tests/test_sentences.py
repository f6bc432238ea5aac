"""README, how-to guides and tutorials have no fillers."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted(page for kind in ("how-to", "tutorial") for page in (ROOT / "docs" / kind).glob("*.md")),
]
NO_PROSE = re.compile(r"^```.*?^```|^(?: {4}|\t|\||#)[^\n]*$|!\[[^\]]*\]\([^)]*\)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
CODE = re.compile(r"`[^`]*`")
FILLERS = re.compile(
    r"\b(please|simply|obviously|basically|utilize|leverage|in order to|prior to|of course|etc\.|e\.g\.|i\.e\.)",
    re.IGNORECASE,
)
"""Words that the Google developer documentation style guide advises against."""


def prose_of(text: str) -> str:
    """Return the text without blocks of code, tables and headings; a piece of code in it counts as one word."""
    return CODE.sub("code", LINK.sub(r"\1", NO_PROSE.sub("", text)))


def test_no_fillers() -> None:
    found = [f"{page.name}: {word}" for page in PAGES for word in FILLERS.findall(prose_of(page.read_text()))]
    assert found == []
