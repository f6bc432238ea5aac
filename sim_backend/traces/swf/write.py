"""Writes jobs as a Standard Workload Format log, column-wise."""

import gzip
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import pyarrow as pa
from pyarrow import csv

from offpeak.files import replacing
from offpeak.model.jobs import Jobs
from offpeak.sim_backend.traces.swf import read as swf
from offpeak.sim_backend.traces.swf.lines import COLUMNS, SUBMIT

STATUS = 11
COMPLETED = 1
POWER_COLUMN = COLUMNS + 1
AS_SWF = csv.WriteOptions(include_header=False, batch_size=1 << 14, delimiter=" ", quoting_style="none")
GZIP_LEVEL = 6  # the files are a little larger than at level 9, and written several times faster


def write_swf(
    jobs: Jobs,
    path: Path | Literal["-"],
    *,
    processors: int,
    unix_start_s: int | None,
    zone: str | None,
    notes: tuple[str, ...] = (),
) -> None:
    """Write the jobs, gzipped if the name ends in .gz; the same jobs give the same bytes. Raises CannotWrite if it
    fails.

    "-" is standard output. `processors` counts the unit of `jobs.size`. Readings of node power go to a 19th column.
    """
    table = _table(jobs)
    directives = {
        "Version": "2.2",
        "MaxJobs": len(jobs),
        "MaxProcs": processors,
        "UnixStartTime": unix_start_s,
        "TimeZoneString": zone,
        "NodePowerColumn": POWER_COLUMN if table.num_columns == POWER_COLUMN else None,
    }
    known = [f"; {name}: {value}\n" for name, value in directives.items() if value is not None]
    header = "".join(known + [f"; Note: {line}\n" for note in notes for line in note.splitlines()]).encode()
    with ExitStack() as open_files:
        sink: BinaryIO | gzip.GzipFile = sys.stdout.buffer
        if isinstance(path, Path):
            sink = open_files.enter_context(replacing(path))
            if path.suffix == ".gz":
                # No name and no time in the gzip header: they would make each file different.
                sink = open_files.enter_context(gzip.GzipFile("", "wb", GZIP_LEVEL, sink, mtime=0))
        sink.write(header)
        csv.write_csv(table, sink, AS_SWF)


def _table(jobs: Jobs) -> pa.Table:
    # As text, so that constant values are not formatted in every line.
    unknown, completed = pa.repeat("-1", len(jobs)), pa.repeat(str(COMPLETED), len(jobs))
    fields = dict.fromkeys(range(1, COLUMNS + 1), unknown) | {
        swf.JOB: jobs.job_id,
        SUBMIT: jobs.submit_s,
        swf.WAIT: np.where(jobs.logged_start_s >= 0, jobs.logged_start_s - jobs.submit_s, -1),
        swf.RUN: jobs.runtime_s,
        swf.USED_PROCESSORS: jobs.as_logged().size,
        swf.REQUESTED_PROCESSORS: jobs.size,
        swf.REQUESTED_TIME: jobs.estimate_s,
        STATUS: completed,
        swf.USER: jobs.user,
        swf.GROUP: jobs.group,
        swf.APPLICATION: jobs.application,
        swf.QUEUE: jobs.queue,
    }
    if np.isfinite(jobs.node_power_w).any():
        fields[POWER_COLUMN] = np.nan_to_num(jobs.node_power_w, nan=-1.0)
    return pa.table({str(field): values for field, values in fields.items()})
