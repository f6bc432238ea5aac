"""The job lines of a Grid Workload Format log: checked, and parsed column-wise.

The first 16 of its 29 fields are those of the Standard Workload Format, but users, groups, executables and queues may
have names: U12, G3.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import pyarrow as pa
from pyarrow import csv

from offpeak.jobs import Float64
from sim_backend.traces.records import Coded
from sim_backend.traces.swf.jobs import APPLICATION, DEMAND, GROUP, QUEUE, USER
from sim_backend.traces.swf.lines import LARGEST, SUBMIT, split_lines
from sim_backend.traces.swf.malformed import NUMBER

COLUMNS = 29
NAMED = (USER, GROUP, APPLICATION, QUEUE)
COMMENT_LINE = re.compile(rb"^[ \t]*#.*(?:\n|\Z)", re.MULTILINE)
UNKNOWN = b"-1"


@dataclass(frozen=True)
class GwfColumns:
    """The used fields by number, in file order: numbers as float64[n], names with their codes."""

    numbers: dict[int, Float64]
    names: dict[int, Coded]


def job_lines(text: bytes) -> bytes:
    """Return the job lines with single blanks, without comments (# or ;)."""
    return split_lines(COMMENT_LINE.sub(b"", text) if b"#" in text else text).body


def parse_columns(body: bytes) -> GwfColumns | None:
    """Return the used columns of job lines with single blanks; None if any line is malformed."""
    names = [str(number) for number in range(1, COLUMNS + 1)]
    types = {str(number): pa.float64() for number in DEMAND}
    types |= {str(number): pa.dictionary(pa.int32(), pa.binary()) for number in NAMED}
    try:
        table = csv.read_csv(
            pa.py_buffer(body),
            # With threads Arrow aborts a process that ends while they are still starting, as a wrong option makes it.
            csv.ReadOptions(column_names=names, use_threads=False),
            csv.ParseOptions(delimiter=" ", quote_char=False),
            csv.ConvertOptions(include_columns=list(types), column_types=types, null_values=[]),
        )
    except pa.ArrowInvalid:
        return None
    numbers = {number: table.column(str(number)).to_numpy() for number in DEMAND}
    small = all(bool((np.abs(values) <= LARGEST).all()) for values in numbers.values())
    if not small or not (numbers[SUBMIT] >= 0).all():
        return None
    return GwfColumns(numbers, {number: _coded(table.column(str(number))) for number in NAMED})


def _coded(column: pa.ChunkedArray) -> Coded:
    whole = column.combine_chunks()
    names = whole.dictionary.to_pylist()
    known = [name for name in names if name != UNKNOWN]
    codes = {name: code for code, name in enumerate(known)} | {UNKNOWN: -1}
    of_index = np.array([codes[name] for name in names], np.int64)
    return Coded(of_index[whole.indices.to_numpy()], tuple(name.decode(errors="replace") for name in known))


def malformed_lines(text: bytes) -> Iterator[tuple[int, str]]:
    """Yield line number, counted from 1 as an editor does, and fault. Slow: only for texts that do not parse."""
    for number, line in enumerate(BytesIO(text), 1):
        fields = line.split()
        if fields and not fields[0].startswith((b"#", b";")) and (fault := _fault(fields)):
            yield number, fault


def _fault(fields: list[bytes]) -> str:
    if len(fields) != COLUMNS:
        return f"{len(fields)} fields where {COLUMNS} are expected"
    for number in DEMAND:
        field = fields[number - 1]
        shown = repr(field[:40].decode(errors="replace"))
        if not NUMBER.fullmatch(field):
            return f"field {number} is not a number: {shown}"
        if abs(float(field)) > LARGEST:
            return f"field {number} is too large: {shown}"
    return "no submit time" if float(fields[SUBMIT - 1]) < 0 else ""
