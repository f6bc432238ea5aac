"""Writes schedules: one CSV file a policy, `job_id,start_s,end_s` in trace seconds."""

import gzip
import re
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from offpeak.errors import BadInput
from offpeak.files import check_writable, replacing
from sim_backend.comparison.compare import Comparison
from sim_backend.comparison.outcome import PolicyRun


def schedule_paths(path: Path, policies: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the file of each policy: `path` itself for a single one, else OUT.csv becomes OUT.greedy.csv and so on."""
    if len(policies) == 1:
        return (path,)
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    ending = path.name.removeprefix(plain.stem)
    names = (re.sub(r"[^\w.+-]+", "-", policy).strip("-") for policy in policies)
    return tuple(path.with_name(f"{plain.stem}.{name}{ending}") for name in names)


def check_schedule_path(path: Path, policies: int) -> None:
    """Raise BadInput if schedules cannot be written there: better known before a long replay than after it."""
    if policies > 1 and path.exists() and not path.is_file() and not path.is_dir():
        raise BadInput(f"{path}: takes one schedule, not {policies}", hint="choose one with --policy")
    check_writable(path, example="schedule.csv")


def write_schedules(comparison: Comparison, path: Path) -> tuple[Path, ...]:
    """Write all schedules, gzipped if the name ends in .gz, and return their files.

    Raises CannotWrite if that fails, with no file half-written.
    """
    paths = schedule_paths(path, tuple(run.policy for run in comparison.runs))
    for run, target in zip(comparison.runs, paths, strict=True):
        content = _schedule_csv(comparison, run)
        with replacing(target) as file:
            # No time stamp inside: the same schedule makes the same file.
            file.write(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return paths


def _schedule_csv(comparison: Comparison, run: PolicyRun) -> bytes:
    table = pa.table(
        {"job_id": comparison.case.jobs.job_id, "start_s": run.schedule.start_s, "end_s": run.schedule.end_s}
    )
    buffer = pa.BufferOutputStream()
    # Arrow would put the header's names in quotes.
    csv.write_csv(table, buffer, csv.WriteOptions(include_header=False, quoting_style="none"))
    header = ",".join(table.column_names).encode() + b"\n"
    return header + bytes(buffer.getvalue())
