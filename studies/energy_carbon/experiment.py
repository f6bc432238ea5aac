"""What is run: a cell of the testbed tables (Measurement) or a point of the simulations (Simulation), with its seed."""

from dataclasses import dataclass

OF_DEFAULT, AS_MEASURED = "of the default run", "as measured"
"""Readings of the utilization, "the percentage of time when cluster resources are stressed with jobs relative to the
total elapsed time": the default run's, which lasts as long as the table's; or the energy-aware run's, both lasting so.
"""
PAPER_WIDTHS, ANY_WIDTH = "paper", "any"


@dataclass(frozen=True)
class Measurement:
    """A workload on a testbed, asleep in one `way` ("both" is standby with the governor), at a utilization.

    `default`: the default scheduler's discipline. `keeps`: nodes that the first waiting job will soon need stay awake;
    otherwise every idle node sleeps at once. `walltime_s`: what jobs ask for at least, 0 for exactly their run time.
    `period_s`: between the default scheduler's passes, 0 for one at each event.
    """

    testbed: str
    way: str
    load_pct: int
    default: str
    reading: str = OF_DEFAULT
    widths: str = PAPER_WIDTHS
    keeps: bool = True
    walltime_s: int = 0
    period_s: int = 0


@dataclass(frozen=True)
class Simulation:
    """One scheduler and its energy-aware counterpart on a cluster, where jobs ask for `load` of it (1: all)."""

    servers: int
    discipline: str
    load: float


@dataclass(frozen=True)
class Experiment:
    """A case with the chances of the seed (`seed`, `replay`)."""

    case: Measurement | Simulation
    seed: int
    replay: int


@dataclass(frozen=True)
class Replays:
    """How often each case is replayed, and the seed of it all."""

    count: int
    seed: int


def experiments(case: Measurement | Simulation, replays: Replays) -> list[Experiment]:
    """Return the experiments of a case, one a replay."""
    return [Experiment(case, replays.seed, replay) for replay in range(replays.count)]
