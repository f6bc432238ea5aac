"""The links of XSEDE and the data that jobs bring; the paper has both from monitoring pages that are gone."""

from itertools import combinations
from pathlib import Path

from plugin.federation.sites import Link
from studies.day_ahead.folder import site_rows

BANDWIDTH_MB_PER_S = 250.0
"""Ours: a file transfer at 2 Gbit/s between any two places, of the order of GridFTP over links of 10 Gbit/s."""
LATENCY_S = 0.05
GB, TB = 1e3, 1e6
DATA_MB = (0.0, 1e-3, 1.0, 10.0, 100.0, 500.0, GB, 10 * GB, 100 * GB, 500 * GB, TB, 10 * TB)
"""Section 5.8: each as likely."""


def links_of(folder: Path) -> tuple[Link, ...]:
    """Return a link between any two systems, without delay where they stand in one place."""
    rows = site_rows(folder)
    return tuple(
        Link((one.name, other.name), LATENCY_S, BANDWIDTH_MB_PER_S)
        for one, other in combinations(rows, 2)
        if one.place != other.place
    )
