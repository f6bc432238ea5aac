"""What queue order and sleeping nodes save, wherever the log is laid on the prices: `python -m benchmarks.savings`.

A log of another decade can be laid on any week of the prices, and a single choice is a matter of luck. So each log is
laid on WEEKS Mondays, evenly spread over those from which the prices last to its end, and what came of each is written
to savings.csv; README and docs/benchmarks.md quote medians and ranges of it, which tests/test_quoted_figures.py
holds. Each date is a command too: `offpeak simulate LOG --start DATE --prices FILE`.
"""

import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np

from benchmarks.logs import price_file, trace_file
from offpeak.model.constants import WEEK_S
from offpeak.model.jobs import Trace
from offpeak.model.step_series import Series
from offpeak.power.capacity.levers import add_sleeping_nodes
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_layout
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import PriceSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import ReplayCase, fleet_of, prepare
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.comparison.outcome import PolicyOutcome
from offpeak.sim_backend.comparison.replications import alignment_interval_of
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.traces.swf.read import read_swf

LOGS = ("KTH-SP2", "SDSC-SP2", "CTC-SP2", "SDSC-BLUE")
"""Each unit counts as a node, so CEA-curie with its 80,640 cores is left out."""
WEEKS = 24
ORDERS = ("greedy", "knapsack")
SLEEP = "timeout:10min"
RECORD = Path(__file__).with_name("savings.csv")


@dataclass(frozen=True)
class Aligned:
    """What one policy saves with the log on one week of the prices, against EASY on nodes that are always on."""

    log: str
    start: str
    policy: str
    saving_pct: float
    easy_wait_s: float
    mean_wait_s: float
    worst_postponement_s: int


@dataclass(frozen=True)
class Over:
    """The median of a figure over the weeks, and the range in which a further week lies 19 times of 20."""

    median: float
    low: float
    high: float

    def text(self, places: int) -> str:
        """Return "0.40 (0.37 to 0.58)"."""
        return f"{self.median:.{places}f} ({self.low:.{places}f} to {self.high:.{places}f})"


def mondays(series: Series, length_s: int, count: int = WEEKS) -> list[date]:
    """Return Mondays evenly spread over those from which so long a log lies within the series."""
    first = datetime.fromtimestamp(int(series.start_s[0]), UTC).date()
    monday = first + timedelta(days=(-first.weekday()) % 7)
    begin_s = int(datetime(monday.year, monday.month, monday.day, tzinfo=UTC).timestamp())
    weeks = (series.end_s - begin_s - length_s) // WEEK_S
    return [monday + timedelta(weeks=int(week)) for week in np.unique(np.linspace(0, max(0, weeks), count).astype(int))]


def aligned_on(name: str, trace: Trace, prices: Path, start: date) -> Iterator[Aligned]:
    """Yield what each policy saves with the log's first day on that date."""
    prepared = prepare(trace, Settings(prices=PriceSettings(file=prices)), start=start.isoformat())
    easy, *others = (parse_policy(policy, SchedulingSettings()) for policy in ("easy", *ORDERS))
    baseline, *outcomes = compare(prepared.case, (easy, *others)).outcomes
    yield from (
        _aligned(name, start, policy, baseline, outcome) for policy, outcome in zip(ORDERS, outcomes, strict=True)
    )
    case, _ = add_sleeping_nodes(prepared.case, prepared.units_per_node)
    yield _aligned(name, start, SLEEP, *_asleep(case))


def _asleep(case: ReplayCase) -> tuple[PolicyOutcome, PolicyOutcome]:
    easy = parse_policy("easy", SchedulingSettings())
    asleep = easy.on(make_capacity_policy(SLEEP, fleet_of(case), CapacitySettings()))
    always_on, slept = compare(case, (easy, asleep)).outcomes
    return always_on, slept


def _aligned(name: str, start: date, policy: str, baseline: PolicyOutcome, outcome: PolicyOutcome) -> Aligned:
    return Aligned(
        name,
        start.isoformat(),
        policy,
        round(outcome.saving_pct, 4),
        round(baseline.mean_wait_s, 1),
        round(outcome.mean_wait_s, 1),
        int(outcome.worst_postponement_s),
    )


def over(values: Sequence[float]) -> Over:
    """Return median and range."""
    found = alignment_interval_of(np.array(values))
    return Over(found.median, found.low, found.high)


def recorded(path: Path = RECORD) -> dict[tuple[str, str], list[Aligned]]:
    """Return the recorded results by log and policy."""
    found: dict[tuple[str, str], list[Aligned]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            names = row["log"], row["start"], row["policy"]
            saving_pct, easy_s, wait_s = (float(row[name]) for name in ("saving_pct", "easy_wait_s", "mean_wait_s"))
            each = Aligned(*names, saving_pct, easy_s, wait_s, int(row["worst_postponement_s"]))
            found.setdefault((each.log, each.policy), []).append(each)
    return found


def hours(seconds: float) -> str:
    """Return "1:44"."""
    minutes = round(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02}"


def waits_text(rows: Sequence[Aligned]) -> str:
    """Return "1:46 h (1:41 to 1:50)", without a range where the prices do not move the jobs."""
    wait = over([row.mean_wait_s for row in rows])
    varies = f" ({hours(wait.low)} to {hours(wait.high)})" if wait.low < wait.high else ""
    return f"{hours(wait.median)} h{varies}"


def table(found: dict[tuple[str, str], list[Aligned]]) -> Iterator[str]:
    """Yield the lines of docs/benchmarks.md: a row a log."""
    for name in dict.fromkeys(log for log, _ in found):
        cells = [f"{hours(found[name, SLEEP][0].easy_wait_s)} h"]
        for policy in (SLEEP, *ORDERS):
            rows = found[name, policy]
            cells += [f"{over([row.saving_pct for row in rows]).text(2)} %", waits_text(rows)]
        worst = max(each.worst_postponement_s for policy in ORDERS for each in found[name, policy])
        yield f"| {name} | {' | '.join(cells)} | {worst / 3600:.0f} h |"


def measure(names: Sequence[str], path: Path) -> None:
    """Lay the logs on the prices and write what came of it, a line a week and policy; print the table."""
    series = read_series(price_file(), parse_layout(""))
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow([field.name for field in fields(Aligned)])
        for name in names:
            trace = read_swf(trace_file(name))
            length_s = int((trace.jobs.submit_s + trace.jobs.runtime_s).max() - trace.jobs.submit_s[0])
            for start in mondays(series, length_s):
                for each in aligned_on(name, trace, price_file(), start):
                    rows.writerow(astuple(each))
                print(f"{name} from {start}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    measure(sys.argv[1:] or LOGS, RECORD)
    print("\n".join(table(recorded())))
