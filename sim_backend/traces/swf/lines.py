"""The job lines of a Standard Workload Format log: checked, and parsed column-wise.

The search for lines that cannot be used is slow: it is for texts that do not parse only.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import csv

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.model.arrays import Float64

COLUMNS = 18
SUBMIT, STATUS = 2, 11
PARTS = (2, 3, 4)
"""The status of a part of a job that was swapped out or checkpointed; only the first part has a submit time."""
LARGEST = 2.0**53  # above it a float64 no longer holds every whole number

BLOCK_BYTES = 1 << 20  # so much of a log is held as text at once
PIECE_BYTES = 1 << 16  # small enough for the processor's cache
OTHER_BLANKS = b"\t\r\v\f"
BLANK, NEWLINE = np.uint8(ord(" ")), np.uint8(ord("\n"))
MARK = np.uint8(ord("\r"))  # no text bears it once the other blanks are spaces
OTHER_BLANKS_AS_SPACES = bytes.maketrans(OTHER_BLANKS, b"    ")
IN_NUMBERS_AND_BLANKS = b"0123456789+-.eE \n"
COMMENT_LINE = re.compile(rb"^[ ]*;.*(?:\n|\Z)", re.MULTILINE)
# What the column-wise parser takes for a number, no more and no less.
NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

Columns = dict[int, Float64]


@dataclass(frozen=True)
class SwfLines:
    """A log's text in two parts: its comment lines in file order, and its job lines with single blanks."""

    comments: tuple[str, ...]
    body: bytes

    @property
    def columns(self) -> int:
        """The number of fields of the first job line, 0 if there is none."""
        return len(self.body[: self.body.find(b"\n") + 1 or None].split())


def split_lines(text: bytes) -> SwfLines:
    """Separate the comments, which may be anywhere, from the job lines."""
    comments: list[str] = []
    bodies: list[bytes] = []
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + PIECE_BYTES) + 1 or len(text)
        piece, start = text[start:end], end
        if any(blank in piece for blank in OTHER_BLANKS):
            piece = piece.translate(OTHER_BLANKS_AS_SPACES)
        if b";" in piece:
            comments += [line.decode(errors="replace").strip() for line in COMMENT_LINE.findall(piece)]
            piece = COMMENT_LINE.sub(b"", piece)
        bodies.append(_with_single_blanks(piece))
    return SwfLines(tuple(comments), b"".join(bodies).lstrip(b"\n").rstrip(b" "))


def _with_single_blanks(text: bytes) -> bytes:
    """Drop the blanks that follow a blank, begin a line or end it."""
    characters = np.frombuffer(text, np.uint8)
    blank = characters == BLANK
    newline = characters == NEWLINE
    surplus = blank.copy()
    surplus[1:] &= (blank | newline)[:-1]
    if surplus.any():
        # Marked by arithmetic and dropped by translate: half the time of indexing with a mask.
        marked = characters - surplus.view(np.uint8) * (BLANK - MARK)
        text = marked.tobytes().translate(None, bytes([MARK]))
    return text.replace(b" \n", b"\n") if (blank[:-1] & newline[1:]).any() else text


def parse_columns(lines: SwfLines, wanted: tuple[int, ...]) -> Columns | None:
    """Return the wanted columns (numbered from 1) of the job lines; None if any line is malformed.

    Where all lines have columns behind those of the format and the wanted ones, these may hold anything.
    """
    read = max(COLUMNS, *wanted)
    body, cut = first_fields(lines.body, read) if lines.columns > read else (lines.body, 0)
    if lines.columns < read or body.translate(None, IN_NUMBERS_AND_BLANKS):
        return None
    if cut and cut < sum(map(bool, body.split(b"\n"))):
        return None
    table = read_table(body, read, dict.fromkeys(wanted, pa.float64()))
    if table is None:
        return None
    columns = {number: table.column(str(number)).to_numpy() for number in wanted}
    return columns if are_usable(columns) else None


def read_table(body: bytes, count: int, types: Mapping[int, pa.DataType]) -> pa.Table | None:
    """Return the columns of these types, by number as text, of lines of so many fields; None if a line is malformed."""
    named = {str(number): kind for number, kind in types.items()}
    try:
        return csv.read_csv(
            pa.py_buffer(body),
            # With threads Arrow aborts a process that ends while they are still starting, as a wrong option makes it.
            csv.ReadOptions(column_names=[str(number) for number in range(1, count + 1)], use_threads=False),
            csv.ParseOptions(delimiter=" ", quote_char=False),
            csv.ConvertOptions(include_columns=list(named), column_types=named, null_values=[]),
        )
    except pa.ArrowInvalid:
        return None


def first_fields(body: bytes, count: int) -> tuple[bytes, int]:
    """Return the lines, which have single blanks, with the first `count` fields of each, and how many had more."""
    return re.subn(rb"(?m)^((?:[^ \n]+ ){%d}[^ \n]+) [^\n]*$" % (count - 1), rb"\1", body)


def are_usable(columns: Columns) -> bool:
    """Tell whether no number is too large, and all jobs have a submit time; parts of jobs need none."""
    small = all(bool((np.abs(values) <= LARGEST).all()) for values in columns.values())
    submitted = columns[SUBMIT] >= 0
    if STATUS in columns and not submitted.all():
        submitted |= np.isin(columns[STATUS], PARTS)
    return small and bool(submitted.all())


def malformed_lines(text: LongText, wanted: tuple[int, ...]) -> Iterator[tuple[int, str]]:
    """Yield line number, counted from 1 as an editor does, and fault. Slow: only for texts that do not parse."""
    expected, read = expected_columns(text, wanted), max(COLUMNS, *wanted)
    for number, fields in _job_lines(text):
        # If most lines have more columns than are read, the number and content of these are not checked.
        if len(fields) < read or len(fields) > read == expected:
            yield number, f"{len(fields)} fields where {expected} are expected"
        elif fault := number_fault(fields, range(1, read + 1), wanted):
            yield number, fault


def without_lines(text: LongText, dropped: frozenset[int]) -> LongText:
    """Return the text without the lines whose numbers are given."""
    return LongText(lambda: (line for number, line in enumerate(text.lines(), 1) if number not in dropped))


def _job_lines(text: LongText) -> Iterator[tuple[int, list[bytes]]]:
    for number, line in enumerate(text.lines(), 1):
        fields = line.split()
        if fields and not fields[0].startswith(b";"):
            yield number, fields


def expected_columns(text: LongText, wanted: tuple[int, ...]) -> int:
    """Return the column count of most lines that have at least the wanted columns and those of the format."""
    fewest = max(COLUMNS, *wanted)
    counts = Counter(len(fields) for _, fields in _job_lines(text))
    return max((columns for columns in counts if columns >= fewest), key=lambda c: (counts[c], -c), default=fewest)


def number_fault(fields: list[bytes], numeric: Iterable[int], wanted: Collection[int]) -> str:
    """Return the fault of the first of these fields that is no number, or wanted and too large; "" for none."""
    for number in numeric:
        if not NUMBER.fullmatch(fields[number - 1]):
            return f"field {number} is not a number: {fields[number - 1][:40].decode(errors='replace')!r}"
    for number in wanted:
        if abs(float(fields[number - 1])) > LARGEST:
            return f"field {number} is too large: {fields[number - 1][:40].decode(errors='replace')!r}"
    is_part = STATUS in wanted and float(fields[STATUS - 1]) in PARTS
    return "no submit time" if float(fields[SUBMIT - 1]) < 0 and not is_part else ""


def lines_to_drop(faults: Iterable[tuple[int, str]], name: str, *, lenient: bool) -> frozenset[int]:
    """Return the numbers of the malformed lines; BadTrace at the first one unless `lenient`."""
    dropped = set()
    for number, fault in faults:
        if not lenient:
            raise BadTrace(f"{name}:{number}: {fault}", hint="--lenient skips such lines and counts them")
        dropped.add(number)
    return frozenset(dropped)
