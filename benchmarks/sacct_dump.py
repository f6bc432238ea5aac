"""Writes jobs that ran as a dump of `sacct -P`, column-wise."""

import gzip
from datetime import tzinfo
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from offpeak.files import replacing
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import MINUTE_S
from offpeak.model.jobs import Jobs
from offpeak.model.local_time import to_local_s

TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"


def write_sacct(jobs: Jobs, path: Path, *, unix_start_s: int, zone: tzinfo, processors_per_node: int) -> None:
    """Write the jobs, gzipped if the name ends in .gz; the same jobs give the same bytes. Raises CannotWrite if it
    fails.

    `jobs.size` counts nodes, `jobs.logged_start_s` must be known, and `unix_start_s` is the jobs' second 0. Limits
    are written in whole minutes, rounded up, and energies in whole joules, as Slurm does. User 17 becomes "user17",
    group 3 "project3", queue 1 "queue1", application 5 "app5", -1 a blank. What was not measured is a blank too.
    """
    table = _table(jobs, unix_start_s, zone, processors_per_node)
    buffer = pa.BufferOutputStream()
    options = csv.WriteOptions(include_header=False, delimiter="|", quoting_style="none")
    csv.write_csv(table, buffer, options)
    content = "|".join(table.column_names).encode() + b"\n" + bytes(buffer.getvalue())
    with replacing(path) as file:
        # No time stamp inside: the same jobs make the same file.
        file.write(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _table(jobs: Jobs, unix_start_s: int, zone: tzinfo, processors_per_node: int) -> pa.Table:
    def clock(time_s: Int64) -> pa.Array:
        local_s = to_local_s(unix_start_s + time_s, zone)
        return pc.strftime(pa.array(local_s).cast(pa.timestamp("s")), TIME_FORMAT)

    submit = clock(jobs.submit_s)
    return pa.table(
        {
            "JobIDRaw": jobs.job_id,
            "JobID": jobs.job_id,
            "User": _named("user", jobs.user),
            "Account": _named("project", jobs.group),
            "Partition": _named("queue", jobs.queue),
            "State": pa.repeat("COMPLETED", len(jobs)),
            "Submit": submit,
            "Eligible": submit,
            "Start": clock(jobs.logged_start_s),
            "End": clock(jobs.logged_start_s + jobs.runtime_s),
            "ElapsedRaw": jobs.runtime_s,
            "TimelimitRaw": -(-jobs.estimate_s // MINUTE_S),
            "AllocNodes": jobs.size,
            "AllocCPUS": jobs.size * processors_per_node,
            "ConsumedEnergyRaw": _energy(jobs.node_power_w * jobs.size * jobs.runtime_s),
            "JobName": _named("app", jobs.application),
        }
    )


def _named(kind: str, number: Int64) -> pa.Array:
    known = pa.array([f"{kind}{i}" for i in range(int(number.max(initial=-1)) + 1)], pa.string())
    return pc.fill_null(known.take(pa.array(number, mask=number < 0)), "")


def _energy(energy_j: Float64) -> pa.Array:
    unknown = np.isnan(energy_j)
    return pc.fill_null(
        pa.array(np.rint(np.where(unknown, 0, energy_j)).astype(np.int64), mask=unknown).cast("str"), ""
    )
