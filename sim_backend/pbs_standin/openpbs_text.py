"""What OpenPBS prints with `qstat -f`: the record of each job as text, lines folded behind commas of its variables."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sim_backend.pbs_standin.estimate import estimate_of
from sim_backend.pbs_standin.openpbs_json import job_record
from sim_backend.pbs_standin.pbs import Pbs
from sim_backend.scheduler.sim_job import SimJob

WIDTH = 79


def qstat_text(pbs: Pbs, jobs: Iterable[SimJob], now_s: float) -> bytes:
    """Return what `qstat -f` prints of these jobs."""
    estimate = estimate_of(pbs, now_s)
    return "".join(_section(pbs.job_id(job), job_record(pbs, job, now_s, estimate)) for job in jobs).encode()


def _section(number: str, record: Mapping[str, Any]) -> str:
    return "\n".join([f"Job Id: {number}", *_lines(record), "", ""])


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    for name, value in record.items():
        if name == "Variable_List":
            yield folded(f"    {name} = " + ",".join(f"{key}={each}" for key, each in value.items()))
        elif isinstance(value, dict):
            yield from (f"    {name}.{key} = {each}" for key, each in value.items())
        else:
            yield f"    {name} = {value}"


def folded(line: str) -> str:
    """Return the line on several, each but the first behind a tab, none wider than a terminal unless one word is."""
    rows = [""]
    for word in line.replace(",", ",\0").split("\0"):
        if rows[-1] and len(rows[-1]) + len(word) > WIDTH:
            rows.append("\t")
        rows[-1] += word
    return "\n".join(rows)
