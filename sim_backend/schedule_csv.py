"""Writes schedules: one CSV file a policy, `job_id,start_s,end_s` in trace seconds."""

from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from offpeak.files import replacing
from sim_backend.compare import Comparison


def schedule_paths(path: Path, policies: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the file of each policy: `path` itself for a single one, else OUT.csv becomes OUT.greedy.csv and so on."""
    if len(policies) == 1:
        return (path,)
    return tuple(path.with_name(f"{path.stem}.{policy}{path.suffix}") for policy in policies)


def write_schedules(comparison: Comparison, path: Path) -> tuple[Path, ...]:
    """Write all schedules and return their files; CannotWrite, with nothing half-written, where that fails."""
    paths = schedule_paths(path, tuple(run.policy for run in comparison.runs))
    for run, target in zip(comparison.runs, paths, strict=True):
        table = pa.table(
            {
                "job_id": comparison.case.jobs.job_id,
                "start_s": run.schedule.start_s,
                "end_s": run.schedule.end_s,
            }
        )
        with replacing(target) as file:
            csv.write_csv(table, file, csv.WriteOptions(quoting_style="none"))
    return paths
