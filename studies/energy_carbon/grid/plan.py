"""What has to be run: all schedulers and selections by load, ECA by its limit of queues, and Table IX."""

from dataclasses import replace

from studies.energy_carbon.grid.experiment import Bench, Case, Choice, Experiment
from studies.energy_carbon.grid.paper import TABLE_IX
from studies.energy_carbon.plan import DISCIPLINES

SELECTIONS = {"RR": "round-robin", "FP": "fastest", "ECA": "eca-queue"}
LOADS = (0.9, 1.2)
LOAD, LIMIT = 0.9, 50
"""Where ECA's jobs wait about as long as round-robin's with backfilling, as the paper has it (Figure 8)."""
LIMITS = (10, 50, 100, 200)


def choice(scheduler: str, selection: str, *, asleep: bool, load: float = LOAD) -> Choice:
    """Return a case by the paper's names."""
    limit = LIMIT if selection == "ECA" else 0
    return Choice(DISCIPLINES[scheduler], asleep, SELECTIONS[selection], load, limit)


def with_limit(scheduler: str, limit: int, load: float) -> Choice:
    """Return ECA on an energy-aware scheduler with that limit of queues."""
    return replace(choice(scheduler, "ECA", asleep=True, load=load), queue_limit=limit)


def cases() -> list[Case]:
    """Return all cases, each once, the starting point first."""
    every: list[Case] = [Bench(column) for column in TABLE_IX]
    for load in (LOAD, *LOADS):
        every += [
            choice(scheduler, selection, asleep=asleep, load=load)
            for scheduler in DISCIPLINES
            for selection in SELECTIONS
            for asleep in (False, True)
        ]
    every += [with_limit(scheduler, limit, load) for load in LOADS for scheduler in DISCIPLINES for limit in LIMITS]
    return list(dict.fromkeys(every))


def experiments(case: Case, count: int, seed: int) -> list[Experiment]:
    """Return the experiments of a case, one a replay."""
    return [Experiment(case, seed, replay) for replay in range(count)]


def planned(count: int, seed: int) -> tuple[Experiment, ...]:
    """Return all experiments, replay by replay."""
    return tuple(experiments(case, count, seed)[replay] for replay in range(count) for case in cases())
