"""What the fields of a job's line mean: from columns of text to columns of numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo

import numpy as np
import pyarrow as pa

from offpeak.model.arrays import Int64
from sim_backend.traces.slurm.clock import Instants, between_s, instants, start_s
from sim_backend.traces.slurm.columns import LIMITS, NODES, PROCESSORS, RUN_TIMES, TIMES, first_of
from sim_backend.traces.slurm.energy import energy_of, plausible, room
from sim_backend.traces.slurm.ids import id_column, ids_of
from sim_backend.traces.slurm.values import (
    UNKNOWN,
    by_distinct,
    count,
    count_in,
    duration_s,
    limit_of_duration_s,
    limit_of_minutes_s,
    whole_number,
    whole_numbers,
)

NAMES = ("User", "Account", "Partition", "JobName", "State")

Readers = Mapping[str, Callable[[bytes], int]]
RUN_TIME_READERS: Readers = dict(zip(RUN_TIMES, (whole_number, duration_s), strict=True))
LIMIT_READERS: Readers = dict(zip(LIMITS, (limit_of_minutes_s, limit_of_duration_s), strict=True))
PROCESSOR_READERS: Readers = dict.fromkeys(PROCESSORS[:2], count) | dict.fromkeys(PROCESSORS[2:], count_in("cpu"))
NODE_READERS: Readers = dict.fromkeys(NODES[:2], count) | dict.fromkeys(NODES[2:], count_in("node"))


@dataclass(frozen=True)
class JobLines:
    """What the lines of jobs say, `table`, and what was `read` of each column that has to make sense, BAD or not.

    `table` has `number` and `id` (see ids), queued_s, start_s, end_s (as it is written), runtime_s and limit_s, each
    UNKNOWN where it is, processors, nodes, energy_j (NaN where unknown or absurd, which is_absurd tells), and the texts
    NAMES.
    """

    table: pa.Table
    read: Mapping[str, Int64]


def job_lines(fields: pa.Table, zone: tzinfo) -> JobLines:
    """Interpret the fields of jobs; `zone` is the clock of times without an offset."""
    ids = ids_of(fields)
    time = {name: _instants(fields, name, zone) for name in TIMES}
    read = {id_column(fields): ids.number} | {name: either.first for name, either in time.items()}
    columns = {"number": ids.number, "id": ids.name, **_times(time, _read(fields, RUN_TIME_READERS, read))}
    columns["limit_s"] = _read(fields, LIMIT_READERS, read)
    columns["nodes"] = np.maximum(_read(fields, NODE_READERS, read), 0)
    processors = _read(fields, PROCESSOR_READERS, read)
    columns["processors"] = np.where(processors == UNKNOWN, columns["nodes"], processors)
    told_j = energy_of(fields)
    columns["energy_j"] = plausible(told_j, **room(columns))
    columns["is_absurd"] = ~np.isnan(told_j) & np.isnan(columns["energy_j"])
    return JobLines(pa.table(columns | {name: _names(fields, name) for name in NAMES}), read)


def _times(time: Mapping[str, Instants], ran_s: Int64) -> dict[str, Int64]:
    queued_s = np.maximum(time["Submit"].first, time["Eligible"].first)
    begin_s = start_s(time["Start"], time["End"], not_before_s=queued_s, runtime_s=ran_s)
    late = (begin_s >= 0) & ((begin_s < queued_s) | (queued_s < 0))
    return {
        "queued_s": np.where(late, begin_s, queued_s),
        "start_s": begin_s,
        "end_s": time["End"].first,
        "runtime_s": np.where(ran_s >= 0, ran_s, between_s(begin_s, time["End"])),
    }


def _instants(fields: pa.Table, name: str, zone: tzinfo) -> Instants:
    if name in fields.column_names:
        return instants(fields[name].combine_chunks(), zone)
    unknown = np.full(len(fields), UNKNOWN)
    return Instants(unknown, unknown)


def _read(fields: pa.Table, readers: Readers, read: dict[str, Int64]) -> Int64:
    """Return the best column that there is, and note in `read` what was read of it; UNKNOWN where there is none."""
    name = first_of(tuple(readers), tuple(fields.column_names))
    if name is None:
        return np.full(len(fields), UNKNOWN)
    column = fields[name].combine_chunks()
    values = whole_numbers(column) if pa.types.is_string(column.type) else by_distinct(column, readers[name])
    # AllocTRES may hold both processors and nodes.
    read[name] = np.minimum(read.get(name, values), values)
    return values


def _names(fields: pa.Table, name: str) -> pa.DictionaryArray:
    if name in fields.column_names:
        return fields[name].combine_chunks()
    return pa.DictionaryArray.from_arrays(np.zeros(len(fields), np.int32), pa.array([b""], pa.binary()))
