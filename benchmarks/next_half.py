"""Whether the ranges of `offpeak estimate` hold the time after the log: `python -m benchmarks.next_half`.

Each part of a log is halved. The first half is estimated, with the replays that the command makes, and the second half
is replayed once under the same policies: does what it saves lie in the promised range? Each part gets dates of its own
season in one of the years 2020 to 2023, so that both halves have the German prices of their own dates. All shares are
written to next_half.csv; docs/benchmarks.md quotes the table that comes of it.

`python -m benchmarks.next_half tiers` looks at the tiers alone, with each part in all of the years, and at how much
chance moves them: which jobs are of a tier is drawn anew in each replay.
"""

import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.bars import machine
from benchmarks.logs import SHARED, price_file, trace_file
from offpeak.model.constants import HOUR_S, WEEK_S
from offpeak.model.jobs import Trace
from offpeak.power.capacity.levers import (
    LEVERS,
    REPLAYS,
    TIERS,
    LeverMeasurement,
    add_sleeping_nodes,
    hold_of_tier,
    with_capacity,
)
from offpeak.settings.replay import MachineSettings, PowerSettings, PriceSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import ReplayCase, prepare
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.comparison.replications import replay_each, spreads_of
from offpeak.sim_backend.comparison.weeks import LEAST_WEEKS
from offpeak.sim_backend.estimate import estimate_savings
from offpeak.sim_backend.replay.policy import Policy, parse_policy
from offpeak.sim_backend.sample import SAMPLE_LOG
from offpeak.sim_backend.traces.swf.read import read_swf

ORDERS = ("greedy", "knapsack")
WHOLE_WEEKS = 24
WITHOUT_DATE_S = int(datetime(2001, 1, 1, tzinfo=UTC).timestamp())
YEARS = (2020, 2021, 2022, 2023)
KINDS = {"log": str, "start": str, "half_weeks": int, "lever": str, "policy": str, "weeks": int}
"""The columns that hold no share."""
LEAST_KEPT = 0.9
"""The bar: so large a share of the promises must be kept."""
RECORD = Path(__file__).with_name("next_half.csv")


class LogPart(NamedTuple):
    """So many weeks of a log from a week on."""

    log: str
    first_week: int
    weeks: int


PARTS = (
    *(LogPart("KTH-SP2", WHOLE_WEEKS * number, WHOLE_WEEKS) for number in range(2)),
    *(LogPart("CTC-SP2", WHOLE_WEEKS * number, WHOLE_WEEKS) for number in range(2)),
    *(LogPart("SDSC-SP2", WHOLE_WEEKS * number, WHOLE_WEEKS) for number in range(4)),
    *(LogPart("SDSC-BLUE", WHOLE_WEEKS * number, WHOLE_WEEKS) for number in range(5)),
    *(LogPart("theta_2022", WHOLE_WEEKS * number, WHOLE_WEEKS) for number in range(2)),
    LogPart("LLNL-Atlas-2006-2.1-cln", 0, WHOLE_WEEKS),
    LogPart("UniLu-Gaia-2014-2", 0, 12),
    LogPart("sample", 0, 12),
    LogPart("KTH-SP2", 0, 48),
    LogPart("theta_2022", 0, 52),
    LogPart("CTC-SP2", 0, 48),
)


@dataclass(frozen=True)
class Promise:
    """What the first half of a part promised of a policy, and what the second half saves: shares of the bill [%].

    Of too few `weeks` there is no range: `low` and `high` are the promised share.
    """

    log: str
    start: str
    half_weeks: int
    lever: str
    policy: str
    weeks: int
    low: float
    promised: float
    high: float
    achieved: float

    @property
    def is_kept(self) -> bool:
        """Whether the second half lies in the range."""
        return self.low <= self.achieved <= self.high


def file_of(log: str) -> Path:
    """Return where the log is."""
    if log == "sample":
        return SAMPLE_LOG
    return SHARED / "modern" / "gaia" / f"{log}.swf.gz" if "Gaia" in log else trace_file(log)


def halves_of(trace: Trace, part: LogPart, year: int) -> tuple[Trace, Trace]:
    """Return both halves of a part, on dates of that year or later with the weekday and the season of its own."""
    submit_s = trace.jobs.submit_s
    edges_s = submit_s[0] + WEEK_S * (part.first_week + np.array([0, part.weeks // 2, part.weeks]))
    unix_s = trace.unix_start_s or WITHOUT_DATE_S
    own = datetime.fromtimestamp(unix_s + int(edges_s[0]), UTC)
    there = own.replace(year=year, day=min(own.day, 28))
    moved_s = round((there - own).total_seconds() / WEEK_S) * WEEK_S
    first, middle, last = np.searchsorted(submit_s, edges_s)
    dated = replace(trace, unix_start_s=unix_s + moved_s)
    return tuple(  # type: ignore[return-value]
        replace(dated, jobs=trace.jobs.take(np.arange(*span))) for span in ((first, middle), (middle, last))
    )


def settings_of(trace: Trace, prices: Path) -> Settings:
    """Return the settings of both halves: the machine is that of the whole log."""
    base = Settings(prices=PriceSettings(file=prices))
    if np.isnan(trace.jobs.node_power_w).all():
        base = replace(base, power=PowerSettings(job="uniform:100W-300W"))
    prepared = prepare(trace, base, start=None)
    return replace(base, machine=MachineSettings(nodes=prepared.case.machine.size // prepared.units_per_node))


def promises_of(part: LogPart, year: int, prices: Path) -> Iterator[Promise]:
    """Yield what the first half promises of each policy, and what the second half achieves."""
    trace = read_swf(file_of(part.log), lenient=True)
    settings = settings_of(trace, prices)
    known, further = halves_of(trace, part, year)
    policies = tuple(parse_policy(name, SchedulingSettings()) for name in ("easy", *ORDERS))
    estimate = estimate_savings(known, settings, policies, days=None)
    levers = LeverMeasurement(estimate, settings, policies).measure()
    achieved = achieved_by(further, settings)
    start = datetime.fromtimestamp((further.unix_start_s or 0) + int(known.jobs.submit_s[0]), UTC).date().isoformat()
    for lever in levers:
        if lever.saving is None:
            continue
        saving, share = lever.saving, lever.saving.share_pct
        figures = (round(each, 4) for each in (share.low, share.middle, share.high, achieved[saving.policy]))
        yield Promise(part.log, start, part.weeks // 2, lever.name, saving.policy, saving.weeks, *figures)


def achieved_by(trace: Trace, settings: Settings) -> dict[str, float]:
    """Return what each policy saves of the bill of a log [%], replayed once and whole."""
    prepared = prepare(trace, settings, start=None)
    easy, *orders = (parse_policy(name, SchedulingSettings()) for name in ("easy", *ORDERS))
    tiers = tiers_of(prepared.case, settings, easy)
    sleeping, _ = add_sleeping_nodes(prepared.case, prepared.units_per_node)
    capacity = replace(settings.capacity, cycles_per_day=settings.agent.cycles_per_day)
    asleep = [with_capacity(easy, name, sleeping, capacity) for _, name in LEVERS]
    found = {each.policy: each.saving_pct for each in compare(prepared.case, (easy, *orders, *tiers)).outcomes}
    slept = compare(sleeping, (easy, *asleep)).outcomes[1:]
    return found | {name: each.saving_pct for (_, name), each in zip(LEVERS, slept, strict=True)}


def tiers_of(case: ReplayCase, settings: Settings, easy: Policy) -> list[Policy]:
    """Return EASY for each tier, with the names that `estimate` gives them."""
    return [
        replace(easy, name=f"{tier.name}, {share:.0%} of jobs up to {longest_s // HOUR_S}h", hold=hold)
        for tier, (share, longest_s) in TIERS.items()
        for hold in [hold_of_tier(case, settings, tier)]
    ]


@dataclass(frozen=True)
class TierTrial:
    """Whether a range of a tier held the second half, what the first one promised, and its deviation [% of the bill].

    The deviation is the standard deviation of replays, which draw the jobs anew.
    """

    policy: str
    is_kept: bool
    promised: float
    deviation: float


def tier_trials_of(part: LogPart) -> Iterator[TierTrial]:
    """Yield a trial of each tier in each year; a part of too few weeks for a range has none."""
    trace = read_swf(file_of(part.log), lenient=True)
    settings, easy = settings_of(trace, price_file()), parse_policy("easy", SchedulingSettings())
    for year in YEARS:
        known, further = (prepare(half, settings, start=None) for half in halves_of(trace, part, year))
        policies = (easy, *tiers_of(known.case, settings, easy))
        draw_w = known.power.draw_w if known.power.is_drawn else None
        replays = replay_each(known.case, policies, range(REPLAYS), seed=settings.power.seed, draw_power=draw_w)
        achieved = compare(further.case, (easy, *tiers_of(further.case, settings, easy))).outcomes[1:]
        for number, (spread, outcome) in enumerate(zip(spreads_of(replays)[1:], achieved, strict=True), 1):
            if spread.further.is_known:
                promised, half = spread.figures["saving_pct"].middle, spread.further.share_half_pct
                is_kept = abs(outcome.saving_pct - promised) <= half
                deviation = float(np.std([each[number].saving_pct for each in replays], ddof=1))
                yield TierTrial(outcome.policy, is_kept, promised, deviation)


def tier_lines(trials: Sequence[TierTrial]) -> Iterator[str]:
    """Yield a line a tier: promises kept, and the medians of what is promised and of its deviation."""
    for policy in dict.fromkeys(each.policy for each in trials):
        own = [each for each in trials if each.policy == policy]
        promised, deviation = (float(np.median([getattr(e, name) for e in own])) for name in ("promised", "deviation"))
        kept = sum(each.is_kept for each in own)
        yield f"{policy}: {kept} of {len(own)} kept, promised {promised:.2f} %, a replay deviates by {deviation:.2f} %"


def recorded(path: Path = RECORD) -> list[Promise]:
    """Return the recorded promises."""
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        return [Promise(**{name: KINDS.get(name, float)(text) for name, text in row.items()}) for row in rows]


def table(promises: Sequence[Promise]) -> Iterator[str]:
    """Yield the lines of docs/benchmarks.md: a row a policy."""
    for policy in dict.fromkeys(each.policy for each in promises):
        own = [each for each in promises if each.policy == policy and each.weeks >= LEAST_WEEKS]
        kept, below = (sum(each) for each in zip(*((e.is_kept, e.achieved < e.low) for e in own), strict=True))
        promised = float(np.median([each.promised for each in own]))
        half = float(np.median([(each.high - each.low) / 2 for each in own]))
        verdict = "reached" if kept >= LEAST_KEPT * len(own) else "**missed**"
        counts = f"{kept} of {len(own)} | {below} | {len(own) - kept - below} | {verdict}"
        yield f"| {own[0].lever} | {policy} | {promised:.2f} ± {half:.2f} % | {counts} |"


def measure(parts: Sequence[LogPart], path: Path) -> None:
    """Halve the parts and write what came of it, a line a part and policy."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow([field.name for field in fields(Promise)])
        for number, part in enumerate(parts):
            for each in promises_of(part, YEARS[number % len(YEARS)], price_file()):
                rows.writerow(astuple(each))
            file.flush()
            print(f"{part} done", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["tiers"]:
        trials = list[TierTrial]()
        for part in PARTS:
            trials += tier_trials_of(part)
            print(f"{part} done", file=sys.stderr, flush=True)
        print(machine(), *tier_lines(trials), sep="\n")
    else:
        measure(PARTS, RECORD)
        print(machine(), *table(recorded()), sep="\n")
