"""From columns of text to columns of numbers: the jobs and the steps in a block of Slurm's accounting.

Jobs are called by number, and "12_4" in an array or "16+1" in a heterogeneous job; "12.batch" is a step. What a job
drew is its own measured energy, else that of its steps. Lines with a field that makes no sense are refused or skipped.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import tzinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from offpeak.machines.node_sets import MOST_NODES
from offpeak.model.arrays import Float64, Int64
from offpeak.sim_backend.traces.slurm.fields import (
    ENERGIES,
    IDS,
    LENIENT_HINT,
    LIMITS,
    NODES,
    PROCESSORS,
    RUN_TIMES,
    TIMES,
    Fields,
    TextSource,
    first_of,
)
from offpeak.sim_backend.traces.slurm.runs import REQUEST_COLUMNS
from offpeak.sim_backend.traces.slurm.values import (
    BAD,
    UNKNOWN,
    Instants,
    between_s,
    by_distinct,
    count,
    count_in,
    duration_s,
    energy_j,
    instants,
    limit_of_duration_s,
    limit_of_minutes_s,
    start_s,
    whole_number,
    whole_numbers,
)

HIGHEST_NODE_W = 20_000.0
"""No node draws more: failing sensors report such energies, 4294967294 J or 18446744073709551614 J."""
TIME_HINT = "times like 2026-11-20T22:01:28 are read: put SLURM_TIME_FORMAT=standard in front of sacct"
SHOWN = 40
OTHER_NAME = r"^\d+[_+]"
PENDING_ARRAY = r"^(?P<number>\d+)_\["

NAMES = ("User", "Account", "Partition", "JobName", "State")
NODE_LIST, CLUSTER = "NodeList", "Cluster"
PRIORITY = "Priority"
_PIECE = re.compile(rb"(?:[^,\[]|\[[^\]]*\])+")
_ONE_RANGE = re.compile(rb"([A-Za-z0-9][\w.-]*?)\[((?:\d{1,9}(?:-\d{1,9})?,?)+)\]([\w.-]*)")
_PLAIN_NAME = re.compile(rb"[A-Za-z0-9][\w.-]*")
_FIRST_NODE = re.compile(rb"([^,\[\s()]+)(?:\[(\w+)[^\]]*\])?(?=,|$)")

Readers = Mapping[str, Callable[[bytes], int]]
RUN_TIME_READERS: Readers = dict(zip(RUN_TIMES, (whole_number, duration_s), strict=True))
LIMIT_READERS: Readers = dict(zip(LIMITS, (limit_of_minutes_s, limit_of_duration_s), strict=True))
PROCESSOR_READERS: Readers = dict.fromkeys(PROCESSORS[:2], count) | dict.fromkeys(PROCESSORS[2:], count_in("cpu"))
PRIORITY_READERS: Readers = {PRIORITY: whole_number}
NODE_READERS: Readers = dict.fromkeys(NODES[:2], count) | dict.fromkeys(NODES[2:], count_in("node"))


@dataclass(frozen=True)
class Ids:
    """Of many lines: the number of each, UNKNOWN if the id is none, and what else the lines `named` are called."""

    number: Int64
    named: Int64
    name: pa.ChunkedArray


def id_column(fields: pa.Table) -> str:
    """Return the column that identifies the jobs."""
    return first_of(IDS, tuple(fields.column_names)) or IDS[0]


def is_step(fields: pa.Table) -> NDArray[np.bool_]:
    """Tell the lines of job steps from those of jobs."""
    return np.asarray(pc.find_substring(fields[id_column(fields)], ".")) >= 0


def ids_of(fields: pa.Table) -> tuple[Int64, pa.StringArray]:
    """Return of each line the number, UNKNOWN if the id is none, BAD where there is no id; what else it is, or ""."""
    number = whole_numbers(fields[id_column(fields)].combine_chunks())
    number = np.where(number < 0, BAD, number)
    if "JobID" not in fields.column_names:
        return number, pa.repeat("", len(fields))
    name = fields["JobID"].combine_chunks()
    if "JobIDRaw" in fields.column_names:
        return number, pc.if_else(pc.equal(name, fields["JobIDRaw"].combine_chunks()), "", name)
    other = pc.match_substring_regex(name, OTHER_NAME)
    # The tasks of an array that wait are one line with the number of the array.
    waiting = pc.struct_field(pc.extract_regex(name, pattern=PENDING_ARRAY), "number")
    number = np.where(other, whole_numbers(pc.fill_null(waiting, "")), number)
    return number, pc.if_else(other, name, "")


def numbered(*tables: Ids) -> tuple[Int64, ...]:
    """Return the numbers, unused ones where only the other name is known."""
    unused = 1 + max((int(ids.number.max(initial=0)) for ids in tables), default=0)
    unnumbered = [ids.name.filter(pa.array(ids.number[ids.named] < 0)) for ids in tables]
    names = pa.chunked_array([chunk for column in unnumbered for chunk in column.chunks], pa.string()).unique()
    for ids, column in zip(tables, unnumbered, strict=True):
        if len(column):
            ids.number[ids.number < 0] = unused + pc.index_in(column, value_set=names).to_numpy()
    return tuple(ids.number for ids in tables)


def energy_of(fields: pa.Table) -> Float64:
    """Return the energy [J] of each line, NaN if it is missing or zero."""
    name = first_of(ENERGIES, tuple(fields.column_names))
    if name is None:
        return np.full(len(fields), np.nan)
    energy = energy_j(fields[name].combine_chunks())
    return np.where(energy > 0, energy, np.nan)


def step_lines(fields: pa.Table, row: Int64) -> pa.Table:
    """Return the steps with an energy: the `number` and `id` of their jobs (see `Ids`), `row`, energy_j, is_extern."""
    energy = energy_of(fields)
    measured = np.flatnonzero(energy > 0)
    fields = fields.take(pa.array(measured))
    column = id_column(fields)
    parent = pc.list_element(pc.split_pattern(fields[column].combine_chunks(), ".", max_splits=1), 0)
    number, name = ids_of(pa.table({column: parent}))
    columns = {"number": number, "id": name, "row": row[measured], "energy_j": energy[measured]}
    return pa.table(columns | {"is_extern": pc.ends_with(fields[column], ".extern").combine_chunks()})


def plausible(energy_j: Float64, *, nodes: Int64, runtime_s: Int64) -> Float64:
    """Return the energies [J], NaN for those that `nodes` cannot have used in that time."""
    return np.where(energy_j <= HIGHEST_NODE_W * nodes * runtime_s, energy_j, np.nan)


def room(columns: Mapping[str, Int64]) -> dict[str, Int64]:
    """Return on what and how long jobs can have used energy, for `plausible`."""
    nodes = columns["nodes"]
    return {
        "nodes": np.where(nodes > 0, nodes, columns["processors"]),
        "runtime_s": np.maximum(columns["runtime_s"], 1),
    }


def with_energy_of_steps(energy_j: Float64, number: Int64, row: Int64, steps: pa.Table, step_number: Int64) -> Float64:
    """Return the energies of jobs [J], where they are NaN the sum of their steps'.

    A step belongs to the last line of its job before it, as `sacct` writes them, else to the first after it. Where a
    job has an extern step that alone counts, as for Slurm itself: it lasts as long as the job, on all of its nodes.
    """
    if not len(steps) or not np.isnan(energy_j).any():
        return energy_j
    step_row = steps["row"].to_numpy()
    order = np.lexsort((row, number))
    numbers, span = number[order], 1 + int(max(row.max(initial=0), step_row.max(initial=0)))
    first = np.searchsorted(numbers, step_number, side="left")
    last = np.searchsorted(numbers, step_number, side="right") - 1
    before = np.searchsorted(numbers * span + row[order], step_number * span + step_row) - 1
    place = np.clip(before, first, np.maximum(last, first))
    run = np.where(last >= first, np.append(order, -1)[place], -1)
    known, extern = run >= 0, steps["is_extern"].to_numpy()
    step_j, jobs = steps["energy_j"].to_numpy(), len(number)
    of_all = np.bincount(run[known], step_j[known], jobs)
    of_extern = np.bincount(run[known & extern], step_j[known & extern], jobs)
    sum_j = np.where(of_extern > 0, of_extern, of_all)
    return np.where(np.isnan(energy_j) & (sum_j > 0), sum_j, energy_j)


def job_lines(fields: pa.Table, zone: tzinfo) -> tuple[pa.Table, Mapping[str, Int64]]:
    """Return the lines of jobs as a table, and the values of each column that must be valid, BAD or not.

    The table has `number` and `id` (see `Ids`), queued_s, start_s, end_s (as it is written), runtime_s and limit_s,
    each UNKNOWN if it is, processors, nodes, energy_j (NaN where unknown or absurd, which is_absurd tells), the texts
    NAMES, the name of the first node if the lines have NodeList, those of REQUEST_COLUMNS that they have, and PRIORITY.
    `zone` is the clock of times without an offset.
    """
    number, other_name = ids_of(fields)
    unknown = Instants(*[np.full(len(fields), UNKNOWN)] * 2)
    has = frozenset(fields.column_names)
    time = {name: instants(fields[name].combine_chunks(), zone) if name in has else unknown for name in TIMES}
    read = {id_column(fields): number} | {name: either.first for name, either in time.items()}
    ran_s = _read(fields, RUN_TIME_READERS, read)
    queued_s = np.maximum(time["Submit"].first, time["Eligible"].first)
    begin_s = start_s(time["Start"], time["End"], not_before_s=queued_s, runtime_s=ran_s)
    is_late = (begin_s >= 0) & ((begin_s < queued_s) | (queued_s < 0))
    columns = {
        "number": number,
        "id": other_name,
        "queued_s": np.where(is_late, begin_s, queued_s),
        "start_s": begin_s,
        "end_s": time["End"].first,
        "runtime_s": np.where(ran_s >= 0, ran_s, between_s(begin_s, time["End"])),
    }
    columns["limit_s"] = _read(fields, LIMIT_READERS, read)
    columns["nodes"] = np.maximum(_read(fields, NODE_READERS, read), 0)
    processors = _read(fields, PROCESSOR_READERS, read)
    columns["processors"] = np.where(processors == UNKNOWN, columns["nodes"], processors)
    logged_j = energy_of(fields)
    columns["energy_j"] = plausible(logged_j, **room(columns))
    columns["is_absurd"] = ~np.isnan(logged_j) & np.isnan(columns["energy_j"])
    if PRIORITY in has:
        columns[PRIORITY] = _read(fields, PRIORITY_READERS, read)
    texts = (*NAMES, *(name for name in REQUEST_COLUMNS if name in has))
    names = {name: _names(fields, name) for name in texts}
    if NODE_LIST in has:
        lists = _names(fields, NODE_LIST)
        found = (_FIRST_NODE.match(text) for text in lists.dictionary.to_pylist())
        first = [match[1] + (match[2] or b"") if match else b"" for match in found]
        names[NODE_LIST] = pa.DictionaryArray.from_arrays(lists.indices, pa.array(first, pa.binary()))
    return pa.table(columns | names), read


def _read(fields: pa.Table, readers: Readers, read: dict[str, Int64]) -> Int64:
    """Return the best column that there is, and note in `read` what was read of it; UNKNOWN if there is none."""
    name = first_of(tuple(readers), tuple(fields.column_names))
    if name is None:
        return np.full(len(fields), UNKNOWN)
    column = fields[name].combine_chunks()
    values = whole_numbers(column) if pa.types.is_string(column.type) else by_distinct(column, readers[name])
    # AllocTRES may hold both processors and nodes.
    read[name] = np.minimum(read.get(name, values), values)
    return values


class NamedNodes:
    """Counts the different nodes of lists such as g[01-04,7],t1: a bit for each number behind a name."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[bytes, int, bytes], bytearray] = {}
        self._single: set[bytes] = set()

    def add(self, lists: Iterable[bytes]) -> None:
        """Count the nodes of these lists; a text that is none, as "None assigned", counts none."""
        for text in lists:
            for piece in _PIECE.findall(text):
                range_of = _ONE_RANGE.fullmatch(piece)
                if range_of is None:
                    if _PLAIN_NAME.fullmatch(piece):
                        self._single.add(piece)
                    continue
                before, ranges, after = range_of.groups()
                for numbers in ranges.split(b","):
                    first, _, last = numbers.partition(b"-")
                    begin, end = int(first), int(last or first) + 1
                    if end - begin == 1:
                        self._single.add(before + first + after)
                    elif begin < end <= MOST_NODES:
                        seen = self._numbers.setdefault((before, len(first), after), bytearray())
                        seen.extend(bytes(max(0, end - len(seen))))
                        seen[begin:end] = b"\1" * (end - begin)

    @property
    def count(self) -> int:
        """How many different nodes there are."""
        names = set(self._single)
        for (before, width, after), seen in self._numbers.items():
            numbers = np.flatnonzero(np.frombuffer(seen, np.uint8)).tolist()
            names.update(before + b"%0*d" % (width, number) + after for number in numbers)
        return len(names)


def _names(fields: pa.Table, name: str) -> pa.DictionaryArray:
    if name in fields.column_names:
        return fields[name].combine_chunks()
    return pa.DictionaryArray.from_arrays(np.zeros(len(fields), np.int32), pa.array([b""], pa.binary()))


@dataclass(frozen=True)
class Lines:
    """The jobs (see `job_lines`) and steps (see `step_lines`) of some lines, each with its `row`; the different
    NodeLists and clusters.
    """

    jobs: pa.Table
    steps: pa.Table
    rows: int
    skipped_lines: int
    is_cut: bool
    node_lists: frozenset[bytes]
    clusters: frozenset[bytes]


def lines_of(fields: Fields, source: TextSource, *, zone: tzinfo, first_row: int) -> Lines:
    """Return what the fields mean; BadTrace at a line with a field that makes no sense, unless `lenient`."""
    step = is_step(fields.table)
    row = first_row + np.arange(len(step))
    of_jobs = fields.table.filter(pa.array(~step))
    jobs, read = job_lines(of_jobs, zone)
    bad = np.logical_or.reduce([values == BAD for values in read.values()])
    if bad.any():
        job = int(np.argmax(bad))
        row_of_job = int(np.flatnonzero(~step)[job])
        name = next(name for name, values in read.items() if values[job] == BAD)
        value = fields.table[name].cast(pa.binary())[row_of_job].as_py()[:SHOWN].decode(errors="replace")
        is_time = name in TIMES
        fault = f"{name} is not a {'time' if is_time else 'value that Slurm writes'}: {value!r}"
        source.refuse(fields.block.line_of_row(row_of_job), fault, TIME_HINT if is_time else LENIENT_HINT)
    steps = step_lines(fields.table.filter(pa.array(step)), row[step])
    table = jobs.append_column("row", pa.array(row[~step])).filter(pa.array(~bad))
    skipped = fields.skipped_lines + int(np.count_nonzero(bad))
    has = frozenset(of_jobs.column_names)
    node_lists = frozenset(pc.unique(of_jobs[NODE_LIST]).to_pylist() if NODE_LIST in has else ())
    clusters = frozenset(_names(of_jobs, CLUSTER).dictionary.to_pylist() if CLUSTER in has else ())
    return Lines(table, steps, len(step), skipped, fields.is_cut, node_lists, clusters)
