"""From the lines of Slurm's accounting to a job log."""

from collections.abc import Iterable
from datetime import tzinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offpeak.errors import BadTrace
from offpeak.jobs import Float64, Int64, Trace
from offpeak.plural import counted
from offpeak.zones import zone_text
from sim_backend.traces.records import Coded, Records, trace_of
from sim_backend.traces.slurm.blocks import Source
from sim_backend.traces.slurm.energy import plausible, with_energy_of_steps
from sim_backend.traces.slurm.fields import Fields
from sim_backend.traces.slurm.ids import numbered
from sim_backend.traces.slurm.job_names import JobNames, job_names
from sim_backend.traces.slurm.lines import Lines, lines_of
from sim_backend.traces.slurm.runs import runs_of

CUT_NOTE = "the last line is cut off and left out: the file was still being written"


def trace_of_fields(parts: Iterable[Fields], source: Source, *, zone: tzinfo, hint: str) -> Trace:
    """Return the log of these lines, which are the fields of `sacct`'s columns; BadTrace if no job is among them."""
    lines = _joined(parts, source, zone)
    if not len(lines.jobs):
        if lines.skipped_lines:
            hint = "without --lenient the first of the lines that cannot be read is named"
        raise BadTrace(f"{source.name}: holds no jobs", hint=hint)
    number, step_number = numbered(lines.jobs, lines.steps)
    runs = runs_of(lines.jobs, number)
    energy_j, energy_notes = _energy(lines, runs.kept, number, step_number)
    records = _records(lines.jobs, runs.kept, number, energy_j)
    notes = (*runs.notes, *energy_notes, *((CUT_NOTE,) if lines.is_cut else ()))
    skipped_lines = lines.skipped_lines
    # Of a million lines 100 MB that the rest has use for.
    del lines, number, step_number, energy_j
    pa.default_memory_pool().release_unused()
    return trace_of(
        source.name,
        records,
        time_zone=zone_text(zone),
        rejected=runs.rejected,
        skipped_lines=skipped_lines,
        notes=notes,
    )


def _joined(parts: Iterable[Fields], source: Source, zone: tzinfo) -> Lines:
    lines: list[Lines] = []
    rows = 0
    for part in parts:
        lines.append(lines_of(part, source, zone=zone, first_row=rows))
        rows += lines[-1].rows
    return Lines(
        jobs=pa.concat_tables([each.jobs for each in lines]).unify_dictionaries(),
        steps=pa.concat_tables([each.steps for each in lines]),
        rows=rows,
        skipped_lines=sum(each.skipped_lines for each in lines),
        is_cut=any(each.is_cut for each in lines),
    )


def _energy(lines: Lines, kept: Int64, number: Int64, step_number: Int64) -> tuple[Float64, tuple[str, ...]]:
    """Return the energies of the jobs that are kept [J], NaN where unknown, and what is noted of them."""
    told_j, runtime_s, nodes, processors, row = (
        np.asarray(lines.jobs[name])[kept] for name in ("energy_j", "runtime_s", "nodes", "processors", "row")
    )
    room = {"nodes": np.where(nodes > 0, nodes, processors), "runtime_s": np.maximum(runtime_s, 1)}
    summed_j = with_energy_of_steps(plausible(told_j, **room), number[kept], row, lines.steps, step_number)
    energy_j = plausible(summed_j, **room)
    absurd = int(np.count_nonzero(np.isnan(energy_j) & ~(np.isnan(told_j) & np.isnan(summed_j))))
    note = f"{counted(absurd, 'job')} with an absurd energy reading: taken as not measured"
    return energy_j, (note,) if absurd else ()


def _records(jobs: pa.Table, kept: Int64, number: Int64, energy_j: Float64) -> Records:
    def column(name: str) -> Int64:
        return np.asarray(jobs[name])[kept]

    return Records(
        job_id=number[kept],
        queued_s=column("queued_s"),
        start_s=column("start_s"),
        runtime_s=column("runtime_s"),
        estimate_s=np.maximum(column("limit_s"), 0),
        nodes=column("nodes"),
        processors=column("processors"),
        user=_coded(jobs["User"], kept),
        group=_coded(jobs["Account"], kept),
        queue=_coded(jobs["Partition"], kept),
        application=_coded(jobs["JobName"], kept),
        energy_j=energy_j,
        job_names=_job_names(jobs["id"], kept, number),
    )


def _coded(column: pa.ChunkedArray, kept: Int64) -> Coded:
    """Return the names that jobs bear, numbered anew; no name is -1."""
    texts = column.combine_chunks()
    index = np.asarray(texts.indices)[kept]
    borne = np.zeros(len(texts.dictionary), bool)
    borne[index] = True
    borne &= np.asarray(pc.not_equal(pc.binary_length(texts.dictionary), 0))
    code = np.where(borne, np.cumsum(borne) - 1, -1)
    names = texts.dictionary.filter(pa.array(borne)).to_pylist()
    return Coded(code[index], tuple(name.decode(errors="replace") for name in names))


def _job_names(column: pa.ChunkedArray, kept: Int64, number: Int64) -> JobNames:
    """Return the other names of all jobs; of one number that bears several, that of the last one that ran."""
    named = np.flatnonzero(pc.not_equal(pc.binary_length(column), 0))
    ran = np.zeros(len(number), bool)
    ran[kept] = True
    in_order = np.concatenate([named[~ran[named]], named[ran[named]]])
    return job_names(number[in_order], column.take(pa.array(in_order)).combine_chunks())
