"""The job lines of a Grid Workload Format log: checked, and parsed column-wise.

The first 16 of its 29 fields are those of the Standard Workload Format, but users, groups, executables and queues may
have names: U12, G3.
"""

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyarrow import csv

from offpeak.files import LongText
from offpeak.model.arrays import Float64, Int64
from sim_backend.traces.codes import Codes
from sim_backend.traces.swf.jobs import APPLICATION, DEMAND, GROUP, QUEUE, USER
from sim_backend.traces.swf.lines import LARGEST, SUBMIT, split_lines
from sim_backend.traces.swf.malformed import NUMBER

COLUMNS = 29
NAMED = (USER, GROUP, APPLICATION, QUEUE)
COMMENT_LINE = re.compile(rb"^[ \t]*#.*(?:\n|\Z)", re.MULTILINE)


Columns = dict[int, Float64 | Int64]
"""The used fields by number, in file order: numbers as float64[n], names as codes."""


def job_lines(text: bytes) -> bytes:
    """Return the job lines with single blanks, without comments (# or ;)."""
    return split_lines(COMMENT_LINE.sub(b"", text) if b"#" in text else text).body


def parse_columns(body: bytes, codes: dict[int, Codes]) -> Columns | None:
    """Return the used columns of job lines with single blanks, `codes` those of the names; None at a malformed line."""
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
    return numbers | {number: codes[number].of(table.column(str(number))) for number in NAMED}


def malformed_lines(text: LongText) -> Iterator[tuple[int, str]]:
    """Yield line number, counted from 1 as an editor does, and fault. Slow: only for texts that do not parse."""
    for number, line in enumerate(text.lines(), 1):
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
