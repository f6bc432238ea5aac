"""What may stand for a job in an order: nothing that a command could take for an option or another job."""

import re
from collections.abc import Iterable

_JOB = re.compile(r"[0-9]+(\[[0-9]*\])?(\.[\w.-]+)?")


def strange(jobs: Iterable[str]) -> dict[str, str]:
    """Return those that are no job numbers, each with the words for that."""
    return {job: "is no job number" for job in jobs if not _JOB.fullmatch(job)}
