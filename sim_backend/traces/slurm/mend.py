"""Lines of a dump of `sacct` with too many or too few fields: joined, dropped or refused. Slow: for odd blocks only."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO

from sim_backend.traces.slurm.blocks import LENIENT_HINT, Block, Source
from sim_backend.traces.slurm.columns import Layout

IN_NAME = "\x1e"  # stands for a delimiter inside a name while the line is parsed
SURPLUS_HINT = "if a name holds the delimiter, make JobName the last column of -o, or use --delimiter=$'\\x1f'"


@dataclass(frozen=True)
class Mended:
    """A block whose lines have as many fields as they should, or are empty where nothing helped."""

    block: Block
    skipped_lines: int
    is_cut: bool


def mended_lines(block: Block, layout: Layout, source: Source) -> Mended:
    """Join surplus fields into the last column where that is free text; BadTrace at other odd lines unless `lenient`.

    A last line without an end and with too few fields is dropped: the file was still being written.
    """
    pieces, taken, skipped, is_cut = [], 0, 0, False
    for number, start, line, surplus in _odd_lines(block, layout):
        body = line.rstrip(b"\r\n")
        is_joined = surplus > 0 and layout.ends_in_free_text
        is_cut = surplus < 0 and not line.endswith(b"\n") and not body.isspace()
        if not is_joined and not is_cut and not body.isspace():
            _refuse(number, surplus, layout, source)
            skipped += 1
        pieces += [block.text[taken:start], _joined(body, layout) if is_joined else b""]
        taken = start + len(body)
    return Mended(replace(block, text=b"".join((*pieces, block.text[taken:]))), skipped, is_cut)


def _odd_lines(block: Block, layout: Layout) -> Iterator[tuple[int, int, bytes, int]]:
    """Yield number, first byte, text and surplus of fields (negative if some are missing) of each odd line."""
    delimiter, most, start = layout.delimiter.encode(), len(layout.columns) - 1, 0
    for number, line in enumerate(BytesIO(block.text), block.first_line):
        surplus = line.count(delimiter) - most
        if surplus and line not in (b"\n", b"\r\n"):
            yield number, start, line, surplus
        start += len(line)


def _refuse(number: int, surplus: int, layout: Layout, source: Source) -> None:
    expected = len(layout.columns)
    fault = f"{expected + surplus} fields where {expected} are expected"
    source.refuse(number, fault, SURPLUS_HINT if surplus > 0 else LENIENT_HINT)


def _joined(body: bytes, layout: Layout) -> bytes:
    """Return a line with too many fields with the surplus in its last column, IN_NAME for each delimiter there."""
    delimiter, last = layout.delimiter.encode(), b"" if layout.columns[-1] else layout.delimiter.encode()
    fields = body.removesuffix(last).split(delimiter, sum(map(bool, layout.columns)) - 1)
    return delimiter.join((*fields[:-1], fields[-1].replace(delimiter, IN_NAME.encode()))) + last
