"""A long text as blocks of whole lines, so that only a part of it is ever held as parsed text."""

from collections.abc import Iterator
from dataclasses import dataclass

from offpeak.errors import BadTrace
from offpeak.files import LongText

BLOCK_BYTES = 4 << 20
LENIENT_HINT = "--lenient skips such lines and counts them"


@dataclass(frozen=True)
class Source:
    """Where a text comes from and what is done about its malformed lines: skipped and counted, or refused."""

    name: str
    lenient: bool

    def refuse(self, line: int, fault: str, hint: str = LENIENT_HINT) -> None:
        """Raise BadTrace unless malformed lines are to be skipped."""
        if not self.lenient:
            raise BadTrace(f"{self.name}:{line}: {fault}", hint=hint)


@dataclass(frozen=True)
class Block:
    """Some whole lines; the number of the first one, counted from 1, is `first_line`."""

    text: bytes
    first_line: int

    def line_of_row(self, row: int) -> int:
        """Return the number of the line that holds the row, counted from 0; empty lines hold none."""
        filled = (number for number, line in enumerate(self.text.splitlines()) if line)
        return self.first_line + next(number for index, number in enumerate(filled) if index == row)


def blocks(text: LongText) -> Iterator[Block]:
    """Yield the text in pieces of about BLOCK_BYTES."""
    first_line = 1
    for block in text.blocks(BLOCK_BYTES):
        yield Block(block, first_line)
        first_line += block.count(b"\n")
