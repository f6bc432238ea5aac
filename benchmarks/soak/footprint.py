"""What this process holds: memory, files, threads and tasks; and whether it grows."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

MIB = 2.0**20
SETTLED = 0.2
"""The share of a run in which caches fill and the allocator finds its size."""


@dataclass(frozen=True)
class Footprint:
    """What the process holds at one moment."""

    rss_mib: float
    files: int
    threads: int
    tasks: int


def footprint() -> Footprint:
    """Return what this process holds now, in a running event loop."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    # The folder itself is open while it is listed.
    files = len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208
    return Footprint(pages * os.sysconf("SC_PAGE_SIZE") / MIB, files, threads, len(asyncio.all_tasks()))


def slope_mib_per_h(rss_mib: Sequence[float], step_s: float) -> float:
    """Return by how much memory grows in an hour of the room: a line through the samples after the run has settled."""
    settled = rss_mib[int(len(rss_mib) * SETTLED) :]
    if len(settled) < 2:
        return 0.0
    return float(np.polyfit(np.arange(len(settled)) * step_s / 3600, settled, 1)[0])


def rise_mib(rss_mib: Sequence[float]) -> float:
    """Return by how much the median of the last tenth is above that of the second tenth."""
    tenth = max(1, len(rss_mib) // 10)
    return median(rss_mib[-tenth:]) - median(rss_mib[tenth : 2 * tenth] or rss_mib)
