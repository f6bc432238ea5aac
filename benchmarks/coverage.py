"""Whether the ranges over weeks of the prices hold what they promise: `python -m benchmarks.coverage`.

Each log is laid on every week that `offpeak simulate --replays` may draw, once, with its submit times shifted. Then
each week is held back in turn: do 20 of the others, as `offpeak estimate` draws them, give a range that holds it? All
savings are written to coverage.csv; docs/benchmarks.md quotes the table that comes of it.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.logs import price_file, trace_file
from benchmarks.savings import SLEEP
from offpeak.model.arrays import Float64
from offpeak.model.jobs import Trace
from offpeak.power.capacity.levers import add_sleeping_nodes, with_capacity
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import ReplayCase, prepare
from offpeak.sim_backend.comparison.replications import (
    ReplicationInterval,
    alignment_interval_of,
    interval_of,
    replay_each,
)
from offpeak.sim_backend.estimate import MOST_REPLAYS
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak.sim_backend.traces.swf.read import read_swf

LOGS = ("KTH-SP2", "SDSC-SP2", "SDSC-BLUE")
HELD_BACK = 20
SEED = 1
RECORD = Path(__file__).with_name("coverage.csv")

MakeInterval = Callable[[Float64], ReplicationInterval]


@dataclass(frozen=True)
class WeekSaving:
    """What one policy saves with the log on one week of the prices, against EASY on nodes that are always on."""

    log: str
    start: str
    policy: str
    saving_pct: float


@dataclass(frozen=True)
class Coverage:
    """How many of the held-back weeks lie in the ranges of others."""

    held: int
    of: int

    def text(self) -> str:
        """Return "19 of 20"."""
        return f"{self.held} of {self.of}"


def savings_of_weeks(name: str, trace: Trace, prices: Path) -> Iterator[WeekSaving]:
    """Yield the savings on all weeks on which replays may lay the log, in the order in which they draw them."""
    prepared = prepare(trace, Settings(prices=PriceSettings(file=prices)), start=None)
    easy, greedy = (parse_policy(policy, SchedulingSettings()) for policy in ("easy", "greedy"))
    sleeping, _ = add_sleeping_nodes(prepared.case, prepared.units_per_node)
    asleep = with_capacity(easy, SLEEP, sleeping, CapacitySettings())
    yield from _savings(name, prepared.case, (easy, greedy), "greedy")
    yield from _savings(name, sleeping, (easy, asleep), SLEEP)


def _savings(name: str, case: ReplayCase, policies: tuple[Policy, ...], policy: str) -> Iterator[WeekSaving]:
    aligned = case.prices.aligned
    assert aligned.weeks is not None, "the log lies on its own dates"
    numbers = range(len(aligned.weeks.offsets_s))
    for number, (_, outcome) in zip(numbers, replay_each(case, policies, numbers, seed=SEED), strict=True):
        first_s = int(case.jobs.submit_s[0]) + aligned.weeks.draw(number, SEED)
        start = datetime.fromtimestamp(first_s, UTC).date().isoformat()
        yield WeekSaving(name, start, policy, round(outcome.saving_pct, 4))


def weeks_held(savings: Sequence[WeekSaving], interval: MakeInterval, count: int | None = None) -> Coverage:
    """Hold back `count` weeks, evenly spread over all, or each: how many lie in the range of MOST_REPLAYS others?"""
    ordered = sorted(savings, key=lambda each: each.start)
    value = np.array([each.saving_pct for each in ordered])
    chosen = np.arange(len(value)) if count is None else np.linspace(0, len(value) - 1, count).astype(int)
    return _held(value, [(at, np.delete(np.arange(len(value)), at)) for at in chosen], interval)


def years_held(savings: Sequence[WeekSaving], interval: MakeInterval) -> Coverage:
    """Hold back each week with all others of its year: how many lie in the range of weeks of other years?"""
    value = np.array([each.saving_pct for each in savings])
    year = np.array([each.start[:4] for each in savings])
    return _held(value, [(at, np.flatnonzero(year != year[at])) for at in range(len(value))], interval)


def _held(value: Float64, trials: Sequence[tuple[int, np.ndarray]], interval: MakeInterval) -> Coverage:
    rng = np.random.default_rng(SEED)
    held = 0
    for at, others in trials:
        found = interval(value[rng.permutation(others)[:MOST_REPLAYS]])
        held += found.low <= value[at] <= found.high
    return Coverage(held, len(trials))


def recorded(path: Path = RECORD) -> dict[tuple[str, str], list[WeekSaving]]:
    """Return the recorded savings by log and policy."""
    found: dict[tuple[str, str], list[WeekSaving]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            each = WeekSaving(row["log"], row["start"], row["policy"], float(row["saving_pct"]))
            found.setdefault((each.log, each.policy), []).append(each)
    return found


def table(found: dict[tuple[str, str], list[WeekSaving]]) -> Iterator[str]:
    """Yield the lines of docs/benchmarks.md: a row a log and policy, and one of all."""
    sums = np.zeros((4, 2), int)
    for (log, policy), savings in found.items():
        range_text = alignment_interval_of(np.array([each.saving_pct for each in savings[:MOST_REPLAYS]]))
        counts = (
            weeks_held(savings, alignment_interval_of, HELD_BACK),
            weeks_held(savings, alignment_interval_of),
            weeks_held(savings, interval_of),
            years_held(savings, alignment_interval_of),
        )
        sums += [astuple(each) for each in counts]
        saves = f"{range_text.median:.2f} ({range_text.low:.2f} to {range_text.high:.2f}) %"
        yield f"| {log} | {policy} | {saves} | {' | '.join(each.text() for each in counts)} |"
    yield f"| all | | | {' | '.join(Coverage(*each).text() for each in sums.tolist())} |"


def measure(names: Sequence[str], path: Path) -> None:
    """Lay the logs on the weeks of the prices and write what came of it, a line a week and policy."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow([field.name for field in fields(WeekSaving)])
        for name in names:
            for each in savings_of_weeks(name, read_swf(trace_file(name)), price_file()):
                rows.writerow(astuple(each))
            print(name, file=sys.stderr, flush=True)


if __name__ == "__main__":
    measure(sys.argv[1:] or LOGS, RECORD)
    print("\n".join(table(recorded())))
