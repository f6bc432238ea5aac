"""How jobs are called: by number, and "12_4" in an array or "16+1" in a heterogeneous job; "12.batch" is a step."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from offpeak.model.arrays import Int64
from sim_backend.traces.slurm.columns import IDS, first_of
from sim_backend.traces.slurm.values import BAD, UNKNOWN, whole_numbers

OTHER_NAME = r"^\d+[_+]"


@dataclass(frozen=True)
class IdColumns:
    """Of each line: the number, UNKNOWN where the id is none, BAD where there is no id; what else it is, or ""."""

    number: Int64
    name: pa.StringArray


@dataclass(frozen=True)
class Ids:
    """Of many lines: the number of each, UNKNOWN where the id is none, and what else the lines `named` are called."""

    number: Int64
    named: Int64
    name: pa.ChunkedArray


def id_column(fields: pa.Table) -> str:
    """Return the column that identifies the jobs."""
    return first_of(IDS, tuple(fields.column_names)) or IDS[0]


def is_step(fields: pa.Table) -> NDArray[np.bool_]:
    """Tell the lines of job steps from those of jobs."""
    return np.asarray(pc.find_substring(fields[id_column(fields)], ".")) >= 0


def ids_of(fields: pa.Table) -> IdColumns:
    """Return how the jobs are called."""
    number = whole_numbers(fields[id_column(fields)].combine_chunks())
    number = np.where(number < 0, BAD, number)
    if "JobID" not in fields.column_names:
        return IdColumns(number, pa.repeat("", len(fields)))
    name = fields["JobID"].combine_chunks()
    if "JobIDRaw" in fields.column_names:
        return IdColumns(number, pc.if_else(pc.equal(name, fields["JobIDRaw"].combine_chunks()), "", name))
    other = pc.match_substring_regex(name, OTHER_NAME)
    return IdColumns(np.where(other, UNKNOWN, number), pc.if_else(other, name, ""))


def ids_of_parents(fields: pa.Table) -> IdColumns:
    """Return how the jobs of these steps are called."""
    column = id_column(fields)
    parent = pc.list_element(pc.split_pattern(fields[column].combine_chunks(), ".", max_splits=1), 0)
    return ids_of(pa.table({column: parent}))


def numbered(*tables: Ids) -> tuple[Int64, ...]:
    """Return the numbers, unused ones where only the other name is known."""
    unused = 1 + max((int(ids.number.max(initial=0)) for ids in tables), default=0)
    unnumbered = [_unnumbered(ids) for ids in tables]
    names = pa.chunked_array([chunk for column in unnumbered for chunk in column.chunks], pa.string()).unique()
    return tuple(
        _with_unused(ids.number, column, names, unused) for ids, column in zip(tables, unnumbered, strict=True)
    )


def _unnumbered(ids: Ids) -> pa.ChunkedArray:
    return ids.name.filter(pa.array(ids.number[ids.named] < 0))


def _with_unused(number: Int64, unnumbered: pa.ChunkedArray, names: pa.StringArray, unused: int) -> Int64:
    if len(unnumbered):
        number[number < 0] = unused + pc.index_in(unnumbered, value_set=names).to_numpy()
    return number
