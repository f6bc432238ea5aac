"""The column model of jobs: what every log format is read into and every policy works on."""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Jobs:
    """Jobs as columns of one length, sorted by submit time, file order within a second.

    `submit_s` counts from the trace's own zero. `size` is in the machine's allocation unit (nodes or processors).
    Unknown users, groups and queues are -1. `node_power_w` is the measured draw per allocated unit [W], NaN where
    nothing was measured.
    """

    job_id: Int64
    submit_s: Int64
    runtime_s: Int64
    estimate_s: Int64
    size: Int64
    user: Int64
    group: Int64
    queue: Int64
    node_power_w: Float64

    def __len__(self) -> int:
        return len(self.job_id)

    def take(self, which: NDArray[np.bool_] | Int64) -> "Jobs":
        """Return the jobs that the mask or the indices select."""
        return Jobs(**{column.name: getattr(self, column.name)[which] for column in fields(self)})

    def with_size(self, size: Int64) -> "Jobs":
        """Return the same jobs asking for `size` units."""
        return replace(self, size=size)


@dataclass(frozen=True)
class Rejected:
    """Jobs that can never run, for one reason."""

    reason: str
    job_ids: tuple[int, ...]


@dataclass(frozen=True)
class Trace:
    """A job log: its jobs, what its header says of the machine and the calendar, and what could not be used.

    `processors` and `nodes` are the header's MaxProcs and MaxNodes, `unix_start_s` the Unix time of the trace's
    second 0, each None where the header is silent.
    """

    name: str
    jobs: Jobs
    processors: int | None
    nodes: int | None
    unix_start_s: int | None
    time_zone: str | None
    rejected: tuple[Rejected, ...] = ()
    skipped_lines: int = 0
    notes: tuple[str, ...] = ()
