"""The lines of a dump of `sacct` as columns of text, parsed column-wise."""

import re
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from sim_backend.traces.slurm.blocks import Block, Source
from sim_backend.traces.slurm.columns import ENERGIES, IDS, RUN_TIMES, TIMES, Layout
from sim_backend.traces.slurm.mend import IN_NAME, mended_lines

TEXT, DISTINCT = pa.string(), pa.dictionary(pa.int32(), pa.binary())
AS_TEXT = frozenset((*IDS, *TIMES, RUN_TIMES[0], ENERGIES[0]))
"""Columns whose values are mostly different; all others are read as a dictionary."""


@dataclass(frozen=True)
class Fields:
    """The used columns of a block's lines, one row for each line of `block` that is not empty."""

    block: Block
    table: pa.Table
    skipped_lines: int
    is_cut: bool


def fields_of(block: Block, layout: Layout, source: Source) -> Fields:
    """Return the fields of the lines; BadTrace at a line with too many or too few, unless `lenient`.

    The last line is dropped where it has no end and too few fields: the file was still being written.
    """
    block = replace(block, text=_without_headers(block.text, layout.header))
    try:
        return Fields(block, parsed(block.text, layout), 0, is_cut=False)
    except pa.ArrowInvalid:
        mended = mended_lines(block, layout, source)
    table = _with_delimiters(parsed(mended.block.text, layout), layout.delimiter)
    return Fields(mended.block, table, mended.skipped_lines, mended.is_cut)


def _without_headers(text: bytes, header: bytes) -> bytes:
    """Empty the lines that repeat the header, as in dumps that were put together."""
    if header not in text:
        return text
    return re.sub(rb"^%b(?=\r?$)" % re.escape(header), b"", text, flags=re.MULTILINE)


def parsed(text: bytes, layout: Layout) -> pa.Table:
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


def _with_delimiters(table: pa.Table, delimiter: str) -> pa.Table:
    """Return the table with the delimiters that `mend` took out of job names."""
    if "JobName" not in table.column_names:
        return table
    index, column = table.column_names.index("JobName"), table["JobName"].combine_chunks()
    names = pc.replace_substring(column.dictionary, pattern=IN_NAME, replacement=delimiter)
    return table.set_column(index, "JobName", pa.DictionaryArray.from_arrays(column.indices, names))
