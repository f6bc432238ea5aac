"""What has to be run: the starting point and the factors, on every log."""

from collections.abc import Sequence
from dataclasses import dataclass

from studies.price_capacity.experiment import FACTORS, Experiment, Setup

START = Setup()


@dataclass(frozen=True)
class Replays:
    """How often each setup is replayed, and the seed of it all."""

    count: int
    seed: int


def experiments(log: str, setup: Setup, replays: Replays) -> list[Experiment]:
    """Return the experiments of a setup, one a replay."""
    return [Experiment(log, replays.seed, replay, setup) for replay in range(replays.count)]


def planned(logs: Sequence[str], replays: Replays) -> tuple[Experiment, ...]:
    """Return all experiments, those of a log next to each other."""
    setups = (START, *(factor.setup for factor in FACTORS))
    return tuple(each for log in logs for setup in setups for each in experiments(log, setup, replays))
