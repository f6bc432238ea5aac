"""Parses the lines of a dump of `sacct` into columns of text, block by block, so that only a part is ever held.

The required columns, their separator, and the command that prints them. Lines with too many or too few fields are
joined, dropped or refused; that is slow, and done for odd blocks only.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.plugin.slurm.accounting import SACCT_COLUMNS

BLOCK_BYTES = 4 << 20
LENIENT_HINT = "--lenient skips such lines and counts them"
IN_NAME = "\x1e"  # stands for a delimiter inside a name while the line is parsed
SURPLUS_HINT = "if a name holds the delimiter, make JobName the last column of -o, or use --delimiter=$'\\x1f'"

# Constraints may hold the usual delimiter: rack1|rack2.
SACCT_COMMAND = f"sacct -a -D -X -P --delimiter=';' -S now-30days -o {','.join(SACCT_COLUMNS)} > sacct.txt"

# Alternative columns, the best one first.
IDS = ("JobIDRaw", "JobID")
TIMES = ("Submit", "Eligible", "Start", "End")
RUN_TIMES = ("ElapsedRaw", "Elapsed")
LIMITS = ("TimelimitRaw", "Timelimit")
PROCESSORS = ("AllocCPUS", "NCPUS", "AllocTRES", "ReqTRES")
NODES = ("AllocNodes", "NNodes", "AllocTRES", "ReqTRES")
ENERGIES = ("ConsumedEnergyRaw", "ConsumedEnergy")
NEEDED = (IDS, ("Submit",), ("Start",), ("End", *RUN_TIMES), ("State",), (*PROCESSORS, *NODES))
USED = frozenset((*SACCT_COLUMNS, "Cluster", *RUN_TIMES, *LIMITS, *PROCESSORS, *NODES, *ENERGIES))

TRES_LISTS = frozenset(("AllocTRES", "ReqTRES"))
FREE_TEXT = frozenset(("JobName", "Comment", "AdminComment", "SubmitLine"))
TELLING = 2  # a line that names so many used columns is a header
DISABLED = b"Slurm accounting storage is disabled"
MESSAGE = re.compile(rb"sacct: |slurm_\w+: |" + DISABLED)

TEXT, DISTINCT = pa.string(), pa.dictionary(pa.int32(), pa.binary())
AS_TEXT = frozenset((*IDS, *TIMES, RUN_TIMES[0], ENERGIES[0]))
"""Columns whose values are mostly different; all others are read as a dictionary."""


@dataclass(frozen=True)
class TextSource:
    """The source of a text, and whether its malformed lines are skipped and counted, or refused."""

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


@dataclass(frozen=True)
class SacctLayout:
    """How the lines of a dump are made: `columns` in order, the last one "" where each line ends in a delimiter."""

    header: bytes
    delimiter: str
    columns: tuple[str, ...]

    @property
    def ends_in_free_text(self) -> bool:
        """Whether surplus fields of a line can only belong to its last column. A list of nodes may hold commas, too."""
        if self.delimiter == "," and "NodeList" in self.columns:
            return False
        return next(name for name in reversed(self.columns) if name) in FREE_TEXT

    @property
    def used(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(dict.fromkeys(name for name in self.columns if name in USED))


def looks_like_sacct(head: bytes) -> bool:
    """Tell whether a text that begins so is a dump of `sacct`, or its complaint in place of one."""
    header = _first_line(head)
    return bool(MESSAGE.match(header)) or len(USED.intersection(_split(header)[1])) >= TELLING


def layout_of(text: bytes, name: str) -> SacctLayout:
    """Return the layout from the first line. Raises BadTrace if it is no header or needed columns are missing."""
    header = _first_line(text)
    if MESSAGE.match(header):
        disabled = "sacct needs slurmdbd; a log of jobcomp/filetxt, which does not, is read too"
        raise BadTrace(
            f"{name}:1: is a message of sacct, not its answer: {header[:80].decode(errors='replace')!r}",
            hint=disabled if DISABLED in header else f"`{SACCT_COMMAND}`",
        )
    delimiter, columns = _split(header)
    if delimiter == "," and (lists := TRES_LISTS.intersection(columns)):
        fault = f"{' and '.join(sorted(lists))} of sacct hold commas, so a comma cannot separate the columns"
        raise BadTrace(f"{name}:1: {fault}", hint=f"--delimiter=';': `{SACCT_COMMAND}`")
    if delimiter == " ":
        raise BadTrace(f"{name}: is laid out for people, its values may be cut off", hint=f"`{SACCT_COMMAND}`")
    missing = [names[0] for names in NEEDED if not set(names) & set(columns)]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise BadTrace(f"{name}:1: has no column{plural} {', '.join(missing)}", hint=f"`{SACCT_COMMAND}`")
    return SacctLayout(header, delimiter, columns)


def first_of(names: tuple[str, ...], present: tuple[str, ...]) -> str | None:
    """Return the best of the alternative columns; None if none is present."""
    return next((name for name in names if name in present), None)


def _first_line(text: bytes) -> bytes:
    return text[: text.find(b"\n") + 1 or None].rstrip(b"\r\n")


def _split(header: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the delimiter, which is whatever stands between the names, and the names."""
    line = header.decode(errors="replace")
    between = set(re.sub("[A-Za-z0-9]", "", line))
    delimiter = between.pop() if len(between) == 1 else "|"
    return delimiter, tuple(line.split(delimiter))


def repair_lines(block: Block, layout: SacctLayout, source: TextSource) -> tuple[Block, int, bool]:
    """Join surplus fields into the last column where that is free text; BadTrace at other odd lines unless `lenient`.

    Return the block, in which lines that cannot be repaired are empty, how many these are, and whether the last line,
    without an end and with too few fields, was dropped: the file was still being written.
    """
    pieces, taken, skipped, is_cut = [], 0, 0, False
    delimiter, most, behind = layout.delimiter.encode(), len(layout.columns) - 1, 0
    for number, line in enumerate(BytesIO(block.text), block.first_line):
        start, behind = behind, behind + len(line)
        surplus = line.count(delimiter) - most
        if not surplus or line in (b"\n", b"\r\n"):
            continue
        body = line.rstrip(b"\r\n")
        is_joined = surplus > 0 and layout.ends_in_free_text
        is_cut = surplus < 0 and not line.endswith(b"\n") and not body.isspace()
        if not is_joined and not is_cut and not body.isspace():
            fault = f"{len(layout.columns) + surplus} fields where {len(layout.columns)} are expected"
            source.refuse(number, fault, SURPLUS_HINT if surplus > 0 else LENIENT_HINT)
            skipped += 1
        pieces += [block.text[taken:start], _joined(body, layout) if is_joined else b""]
        taken = start + len(body)
    return replace(block, text=b"".join((*pieces, block.text[taken:]))), skipped, is_cut


def _joined(body: bytes, layout: SacctLayout) -> bytes:
    """Return a line with too many fields with the surplus in its last column, IN_NAME for each delimiter there."""
    delimiter, last = layout.delimiter.encode(), b"" if layout.columns[-1] else layout.delimiter.encode()
    fields = body.removesuffix(last).split(delimiter, sum(map(bool, layout.columns)) - 1)
    return delimiter.join((*fields[:-1], fields[-1].replace(delimiter, IN_NAME.encode()))) + last


@dataclass(frozen=True)
class Fields:
    """The used columns of a block's lines, one row for each line of `block` that is not empty."""

    block: Block
    table: pa.Table
    skipped_lines: int
    is_cut: bool


def fields_of(block: Block, layout: SacctLayout, source: TextSource) -> Fields:
    """Return the fields of the lines; BadTrace at a line with too many or too few, unless `lenient`.

    The last line is dropped where it has no end and too few fields: the file was still being written.
    """
    if layout.header in block.text:
        # Dumps that were put together repeat the header.
        text = re.sub(rb"^%b(?=\r?$)" % re.escape(layout.header), b"", block.text, flags=re.MULTILINE)
        block = replace(block, text=text)
    try:
        return Fields(block, parsed(block.text, layout), 0, is_cut=False)
    except pa.ArrowInvalid:
        block, skipped, is_cut = repair_lines(block, layout, source)
    table = parsed(block.text, layout)
    if "JobName" in table.column_names:
        # Put back the delimiters that `repair_lines` took out of job names.
        index, column = table.column_names.index("JobName"), table["JobName"].combine_chunks()
        names = pc.replace_substring(column.dictionary, pattern=IN_NAME, replacement=layout.delimiter)
        table = table.set_column(index, "JobName", pa.DictionaryArray.from_arrays(column.indices, names))
    return Fields(block, table, skipped, is_cut)


def parsed(text: bytes, layout: SacctLayout) -> pa.Table:
    """Return the used columns; pa.ArrowInvalid if a line has too many or too few fields."""
    types = {name: TEXT if name in AS_TEXT else DISTINCT for name in layout.used}
    if not text or text.isspace():
        return pa.table({name: pa.array([], kind) for name, kind in types.items()})
    # A column asked for twice counts once; the others only need a name.
    names = [name if name not in layout.columns[:i] else f"{i}" for i, name in enumerate(layout.columns)]
    return csv.read_csv(
        pa.py_buffer(text),
        # With threads Arrow aborts a process that ends while they are still starting, as a wrong option makes it.
        csv.ReadOptions(column_names=names, use_threads=False, block_size=len(text) + 1),
        csv.ParseOptions(delimiter=layout.delimiter, quote_char=False),
        csv.ConvertOptions(include_columns=list(types), column_types=types, null_values=[], check_utf8=False),
    ).combine_chunks()
