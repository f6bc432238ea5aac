"""What is run: a strategy on the grid, with what is changed about it; and its seed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A strategy (a policy of plugin.federation) at a weight of time w_t [%].

    `wrong_h`: up to so much is added to predicted waits. `most`: MaxQ, jobs a system takes in a cycle, None for any
    number. `brokered_pct`: f_g, the share of jobs that go to the broker. `data`: jobs have data that has to move.
    `passes`: more than one, and jobs of a cycle know of each other. `period_s`: from cycle to cycle; the paper has
    "every few minutes" (section 5.9).
    """

    strategy: str
    time_pct: float = 25.0
    wrong_h: float = 0.0
    most: int | None = 2
    brokered_pct: int = 100
    data: bool = False
    passes: int = 1
    period_s: int = 300


@dataclass(frozen=True)
class Experiment:
    """A case with the chances of the seed (`seed`, `replay`), over so many jobs behind so many of history."""

    case: Case
    seed: int
    replay: int
    jobs: int = 10_000
    history: int = 4_000


@dataclass(frozen=True)
class Replays:
    """How often each case is replayed, and the seed of it all."""

    count: int
    seed: int


def experiments(case: Case, replays: Replays) -> list[Experiment]:
    """Return the experiments of a case, one a replay."""
    return [Experiment(case, replays.seed, replay) for replay in range(replays.count)]
