"""What an experiment comes to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """All clusters together, and the jobs and the energy of each; times are means over jobs but for `duration_h`.

    Energy is that of the computers, without cooling, until the last job has ended anywhere (of the testbed: until a
    cluster's own last job has).
    """

    energy_kwh: float
    co2_kg: float
    wait_h: float
    turnaround_h: float
    duration_h: float
    jobs: tuple[int, ...]
    site_kwh: tuple[float, ...]


def parse_result(told: Mapping[str, Any]) -> Result:
    """Return the result that `dataclasses.asdict` gave; TypeError or KeyError if it is none."""
    return Result(**{**told, "jobs": tuple(told["jobs"]), "site_kwh": tuple(told["site_kwh"])})
