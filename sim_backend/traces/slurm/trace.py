"""From the lines of Slurm's accounting to a job log."""

from collections.abc import Iterable
from datetime import tzinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offpeak.errors import BadTrace
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Trace
from offpeak.model.local_time import zone_text
from offpeak.text import counted
from sim_backend.traces.codes import Codes
from sim_backend.traces.column_store import ColumnStore
from sim_backend.traces.records import Coded, Records, trace_of
from sim_backend.traces.slurm.blocks import Source
from sim_backend.traces.slurm.energy import plausible, room, with_energy_of_steps
from sim_backend.traces.slurm.fields import Fields
from sim_backend.traces.slurm.ids import Ids, numbered
from sim_backend.traces.slurm.job_names import JobNames, job_names
from sim_backend.traces.slurm.jobs import NAMES
from sim_backend.traces.slurm.lines import Lines, lines_of
from sim_backend.traces.slurm.runs import runs_of

CUT_NOTE = "the last line is cut off and left out: the file was still being written"


class _Log:
    """The lines that were read, block by block: jobs as columns with their names as codes, and steps."""

    def __init__(self) -> None:
        self.jobs = ColumnStore()
        self.codes = {name: Codes(None if name == "State" else b"") for name in NAMES}
        self.job_ids = _OtherNames()
        self.steps: list[pa.Table] = []
        self.rows = 0
        self.skipped_lines = 0
        self.is_cut = False

    def add(self, lines: Lines) -> None:
        """Add the lines of the next block."""
        columns = {name: np.asarray(lines.jobs[name]) for name in lines.jobs.column_names if name not in (*NAMES, "id")}
        codes = {name: self.codes[name].of(lines.jobs[name]) for name in NAMES}
        self.job_ids.add(lines.jobs["id"], len(self.jobs))
        self.jobs.append(columns | codes)
        if len(lines.steps) or not self.steps:
            self.steps.append(lines.steps)
        self.rows += lines.rows
        self.skipped_lines += lines.skipped_lines
        self.is_cut |= lines.is_cut


class _OtherNames:
    """What jobs are called besides their number, with their rows: nothing is kept of the others."""

    def __init__(self) -> None:
        self._rows: list[Int64] = []
        self._names: list[pa.Array] = []

    def add(self, column: pa.ChunkedArray, first_row: int) -> None:
        """Add the names of the next rows, "" where there is none."""
        column = column.combine_chunks()
        rows = np.flatnonzero(pc.not_equal(pc.binary_length(column), 0))
        if len(rows):
            self._rows.append(rows + first_row)
            self._names.append(column.take(pa.array(rows)))

    def with_numbers(self, number: Int64) -> Ids:
        """Return the ids of all rows."""
        rows = np.concatenate([np.empty(0, np.int64), *self._rows])
        return Ids(number, rows, pa.chunked_array(self._names, pa.string()))


def trace_of_fields(parts: Iterable[Fields], source: Source, *, zone: tzinfo, hint: str) -> Trace:
    """Return the log of these lines, which are the fields of `sacct`'s columns; BadTrace if no job is among them."""
    log = _Log()
    for part in parts:
        log.add(lines_of(part, source, zone=zone, first_row=log.rows))
    if not len(log.jobs):
        if log.skipped_lines:
            hint = "without --lenient the first of the lines that cannot be read is named"
        raise BadTrace(f"{source.name}: holds no jobs", hint=hint)
    # Arrow keeps what it has parsed for more of it.
    pa.default_memory_pool().release_unused()
    steps = pa.concat_tables(log.steps)
    ids = log.job_ids.with_numbers(log.jobs.pop("number"))
    number, step_number = numbered(ids, _ids_of_steps(steps))
    runs = runs_of(log.jobs, number, log.codes["State"].names)
    energy_j, energy_notes = _energy(log.jobs, steps, runs.kept, number, step_number)
    log.jobs.release("row", "energy_j", "is_absurd", "State", "end_s")
    return trace_of(
        source.name,
        _records(log, runs.kept, number, energy_j, _job_names(ids, runs.kept, number)),
        time_zone=zone_text(zone),
        rejected=runs.rejected,
        skipped_lines=log.skipped_lines,
        notes=(*runs.notes, *energy_notes, *((CUT_NOTE,) if log.is_cut else ())),
    )


def _ids_of_steps(steps: pa.Table) -> Ids:
    names = _OtherNames()
    names.add(steps["id"], 0)
    return names.with_numbers(steps["number"].to_numpy().copy())


def _energy(
    jobs: ColumnStore, steps: pa.Table, kept: Int64, number: Int64, step_number: Int64
) -> tuple[Float64, tuple[str, ...]]:
    """Return the energies of the jobs that are kept [J], NaN where unknown, and what is noted of them."""
    energy_j, is_absurd = jobs.get("energy_j")[kept], jobs.get("is_absurd")[kept]
    if len(steps):
        summed_j = with_energy_of_steps(energy_j, number[kept], jobs.get("row")[kept], steps, step_number)
        columns = {name: jobs.get(name)[kept] for name in ("nodes", "processors", "runtime_s")}
        energy_j = plausible(summed_j, **room(columns))
        is_absurd = np.isnan(energy_j) & (is_absurd | ~np.isnan(summed_j))
    absurd = int(np.count_nonzero(is_absurd))
    note = f"{counted(absurd, 'job')} with an absurd energy reading: taken as not measured"
    return energy_j, (note,) if absurd else ()


def _records(log: _Log, kept: Int64, number: Int64, energy_j: Float64, names: JobNames) -> Records:
    """Return the jobs that are kept; the columns of the log are given up."""
    jobs = log.jobs

    def column(name: str) -> Int64:
        whole = jobs.pop(name)
        return whole if len(kept) == len(whole) else whole[kept]

    def coded(name: str) -> Coded:
        return log.codes.pop(name).renumbered(column(name))

    return Records(
        job_id=number if len(kept) == len(number) else number[kept],
        queued_s=column("queued_s"),
        start_s=column("start_s"),
        runtime_s=column("runtime_s"),
        estimate_s=np.maximum(limit_s := column("limit_s"), 0, out=limit_s),
        nodes=column("nodes"),
        processors=column("processors"),
        user=coded("User"),
        group=coded("Account"),
        queue=coded("Partition"),
        application=coded("JobName"),
        energy_j=energy_j,
        job_names=names,
    )


def _job_names(ids: Ids, kept: Int64, number: Int64) -> JobNames:
    """Return the other names of all jobs; of one number that bears several, that of the last one that ran."""
    ran = np.zeros(len(number), bool)
    ran[kept] = True
    ran = ran[ids.named]
    in_order = np.concatenate([np.flatnonzero(~ran), np.flatnonzero(ran)])
    return job_names(number[ids.named[in_order]], ids.name.take(pa.array(in_order)).combine_chunks())
