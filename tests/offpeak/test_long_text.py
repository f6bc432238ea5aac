"""Long texts: the same blocks and lines from memory, a file and a gzipped file; damage is named."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak import files as long_text
from offpeak.errors import BadTrace
from offpeak.files import LongText, joined, text_of_file

TEXT = b"".join(b"line %d\n" % number for number in range(100_000)) + b"no end"


@given(st.lists(st.binary(max_size=20)), st.integers(1, 30))
def test_blocks_are_whole_lines_and_the_whole_text(parts: list[bytes], size: int) -> None:
    text = LongText(lambda: iter(parts))
    blocks = list(text.blocks(size))
    assert b"".join(blocks) == b"".join(parts) == b"".join(text.lines())
    assert all(block.endswith(b"\n") for block in blocks[:-1])
    assert text.head(size) == b"".join(parts)[:size]


@pytest.mark.parametrize("written", [TEXT, gzip.compress(TEXT), gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:])])
def test_a_file_is_read_again_in_each_pass(tmp_path: Path, written: bytes) -> None:
    (tmp_path / "log").write_bytes(written + b"\0" * 600 * written.startswith(b"\x1f"))
    text = text_of_file(tmp_path / "log", BadTrace)
    for _ in range(2):
        assert b"".join(text.blocks(1000)) == TEXT
        assert max(map(len, text.chunks())) <= long_text.CHUNK_BYTES


def test_lines_appended_during_reading_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\xef\xbb\xbfone\n")
    text = text_of_file(tmp_path / "log", BadTrace)
    with (tmp_path / "log").open("ab") as file:
        file.write(b"two\n")
    assert list(text.lines()) == [b"one\n"]


def test_texts_are_joined_at_line_ends() -> None:
    parts = [LongText(part) for part in (b"a\n", b"b", b"", b"c\n", b"d")]
    assert list(joined(parts).lines()) == [b"a\n", b"b\n", b"c\n", b"d"]


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        (gzip.compress(TEXT)[:-9], "ends too early"),
        (gzip.compress(TEXT)[:-8] + b"\1" * 8, "is damaged"),
        (b"\0binary", "is a binary file"),
    ],
)
def test_damage_is_named(tmp_path: Path, written: bytes, fault: str) -> None:
    (tmp_path / "log").write_bytes(written)
    with pytest.raises(BadTrace, match=rf"log: .*{fault}"):
        list(text_of_file(tmp_path / "log", BadTrace).chunks())
    with pytest.raises(BadTrace, match="no such file"):
        text_of_file(tmp_path / "gone", BadTrace)
