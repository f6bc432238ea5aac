"""Finds the lines of a Standard Workload Format log that cannot be used. Slow: only for texts that do not parse."""

import re
from collections import Counter
from collections.abc import Iterator

from offpeak.files import LongText
from sim_backend.traces.swf.lines import COLUMNS, LARGEST, SUBMIT

# What the column-wise parser takes for a number, no more and no less.
NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def malformed_lines(text: LongText, wanted: tuple[int, ...]) -> Iterator[tuple[int, str]]:
    """Yield line number, counted from 1 as an editor does, and fault. Slow: only for texts that do not parse."""
    expected = expected_columns(text, wanted)
    for number, fields in _job_lines(text):
        if fault := _fault(fields, expected, wanted):
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


def _fault(fields: list[bytes], expected: int, wanted: tuple[int, ...]) -> str:
    read = max(COLUMNS, *wanted)
    # Where most lines have more columns than are read, what stands in these and how many there are is not checked.
    if len(fields) < read or len(fields) > read == expected:
        return f"{len(fields)} fields where {expected} are expected"
    if not all(map(NUMBER.fullmatch, fields[:read])):
        number = next(number for number, field in enumerate(fields, 1) if not NUMBER.fullmatch(field))
        return f"field {number} is not a number: {_shown(fields[number - 1])}"
    for number in wanted:
        if abs(float(fields[number - 1])) > LARGEST:
            return f"field {number} is too large: {_shown(fields[number - 1])}"
    return "no submit time" if float(fields[SUBMIT - 1]) < 0 else ""


def _shown(field: bytes) -> str:
    return repr(field[:40].decode(errors="replace"))
