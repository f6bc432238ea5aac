"""The lines of a block told apart: jobs and steps; those with a field that makes no sense are refused or skipped."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo

import numpy as np
import pyarrow as pa

from offpeak.model.arrays import Int64
from sim_backend.traces.slurm.blocks import LENIENT_HINT, Source
from sim_backend.traces.slurm.columns import TIMES
from sim_backend.traces.slurm.energy import step_lines
from sim_backend.traces.slurm.fields import Fields
from sim_backend.traces.slurm.ids import is_step
from sim_backend.traces.slurm.jobs import job_lines
from sim_backend.traces.slurm.values import BAD

TIME_HINT = "times like 2026-11-20T22:01:28 are read: put SLURM_TIME_FORMAT=standard in front of sacct"
SHOWN = 40


@dataclass(frozen=True)
class Lines:
    """The jobs (see `jobs.JobLines.table`) and steps (see `energy.step_lines`) of some lines, each with its `row`."""

    jobs: pa.Table
    steps: pa.Table
    rows: int
    skipped_lines: int
    is_cut: bool


def lines_of(fields: Fields, source: Source, *, zone: tzinfo, first_row: int) -> Lines:
    """Return what the fields mean; BadTrace at a line with a field that makes no sense, unless `lenient`."""
    step = is_step(fields.table)
    row = first_row + np.arange(len(step))
    jobs = job_lines(fields.table.filter(pa.array(~step)), zone)
    bad = np.logical_or.reduce([values == BAD for values in jobs.read.values()])
    if bad.any():
        _refuse(fields, np.flatnonzero(~step)[int(np.argmax(bad))], jobs.read, int(np.argmax(bad)), source)
    steps = step_lines(fields.table.filter(pa.array(step)), row[step])
    table = jobs.table.append_column("row", pa.array(row[~step])).filter(pa.array(~bad))
    return Lines(table, steps, len(step), fields.skipped_lines + int(np.count_nonzero(bad)), fields.is_cut)


def _refuse(fields: Fields, row: int, read: Mapping[str, Int64], job: int, source: Source) -> None:
    name = next(name for name, values in read.items() if values[job] == BAD)
    value = fields.table[name].cast(pa.binary())[row].as_py()[:SHOWN].decode(errors="replace")
    is_time = name in TIMES
    fault = f"{name} is no {'time' if is_time else 'value that Slurm writes'}: {value!r}"
    source.refuse(fields.block.line_of_row(int(row)), fault, TIME_HINT if is_time else LENIENT_HINT)
