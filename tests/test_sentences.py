"""README, how-to guides and tutorials are easy to read: short sentences, no fillers."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted(page for kind in ("how-to", "tutorial") for page in (ROOT / "docs" / kind).glob("*.md")),
]
NO_PROSE = re.compile(r"^```.*?^```|^(?: {4}|\t|\||#)[^\n]*$|!\[[^\]]*\]\([^)]*\)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
CODE = re.compile(r"`[^`]*`")
BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )")
SENTENCE = re.compile(r"(?<=[.!?])\s+")
WORD = re.compile(r"\w[\w'.,%-]*")
FILLERS = re.compile(
    r"\b(please|simply|obviously|basically|utilize|leverage|in order to|prior to|of course|etc\.|e\.g\.|i\.e\.)",
    re.IGNORECASE,
)
"""Words that the Google developer documentation style guide advises against."""


def prose_of(text: str) -> str:
    """Return the text without blocks of code, tables and headings; a piece of code in it counts as one word."""
    return CODE.sub("code", LINK.sub(r"\1", NO_PROSE.sub("", text)))


def words_per_sentence(text: str) -> list[int]:
    """Return the number of words of each sentence."""
    sentences = (sentence for block in BLOCK.split(text) for sentence in SENTENCE.split(" ".join(block.split())))
    return [words for sentence in sentences if (words := len(WORD.findall(sentence))) > 1]


def test_it_counts_words() -> None:
    text = "One two three. Four `five six`: seven eight.\n\n- Nine\n  ten.\n- Eleven, twelve\n\n    no prose\n"
    assert words_per_sentence(text) == [3, 5, 2, 2, 2]
    assert prose_of("# Title\n\n[Four](x.md) `five six`\n\n| a | b |\n\n    block\n").split() == ["Four", "code"]


def test_sentences_are_short() -> None:
    found = [words for page in PAGES for words in words_per_sentence(prose_of(page.read_text()))]
    assert len(found) > 1000
    assert sum(found) / len(found) <= 16
    assert sum(words > 30 for words in found) / len(found) < 0.03


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_fillers(page: Path) -> None:
    assert FILLERS.findall(prose_of(page.read_text())) == []
