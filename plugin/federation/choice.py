"""A decision in words: where a job goes, why, what the second-best site would have cost, or what is missing where."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """What a job would take at a site: `delay_s` until it starts, run time, cores of whole units, energy, cost, CO2.

    `score` is what the policy compared, None where it saw no choice.
    """

    site: str
    delay_s: float
    runtime_s: float
    cores: int
    energy_j: float
    cost: float
    co2_g: float
    score: float | None


@dataclass(frozen=True)
class Miss:
    """Why a site cannot run a job."""

    site: str
    text: str


@dataclass(frozen=True)
class Choice:
    """Where a job goes, None for nowhere now, with the reason.

    `chosen` and `second` are the site and the best of the others, None where there is none; `misses` are the sites that
    cannot run it.
    """

    job_id: int
    site: str | None
    reason: str
    chosen: Estimate | None
    second: Estimate | None
    misses: tuple[Miss, ...]
