"""The study as a whole: every policy in energy, delay and cycles, families of policies at equal energy, one figure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean

import numpy as np
from pydantic import TypeAdapter

from offpeak.report_tables import Range, Report, StudyTable, TableCell
from offpeak.text import counted
from offpeak_studies import report
from offpeak_studies.harness import Progress, Replays, Runner, RunOnLog, StudyOrder, result_key, results_of
from offpeak_studies.logs import find_logs
from offpeak_studies.sleeping.run import (
    ALWAYS_ON,
    AT_ONCE,
    BREAK_EVEN,
    EQUAL_ENERGY_PCT,
    FAMILIES,
    FORECAST,
    LATE,
    NODES,
    OLS,
    POLICIES,
    POOL,
    SHARES_PCT,
    SINGLE,
    TIMEOUT,
    TWO_LEVEL,
    SleepingExperiment,
    SleepingResult,
    machine_of,
    run,
)

Measure = Callable[[SleepingResult], float]


saved_pct: Measure = attrgetter("saved_pct")
delay_s: Measure = attrgetter("delay_s")
cycles: Measure = attrgetter("cycles")


def replays_of(policy: str, replays: Replays) -> range:
    """Return the numbers of a policy's replays: a quarter of them if they take long."""
    return range(-(-replays.count // 4) if policy in FAMILIES[OLS] else replays.count)


def experiments(log: str, policy: str, replays: Replays) -> list[SleepingExperiment]:
    """Return the experiments of a policy, one for each replay."""
    return [SleepingExperiment(log, replays.seed, replay, policy) for replay in replays_of(policy, replays)]


@dataclass(frozen=True)
class SleepingResults:
    """All results of the study."""

    results: Mapping[SleepingExperiment, SleepingResult]
    replays: Replays

    def each(self, log: str, policy: str) -> list[SleepingResult]:
        """Return the results of a policy's replays."""
        return [self.results[experiment] for experiment in experiments(log, policy, self.replays)]

    def of(self, log: str, policy: str, measure: Measure) -> Range:
        """Return a figure over the replays."""
        return report.range_of([measure(result) for result in self.each(log, policy)])

    def longer_s(self, log: str, policy: str) -> Range:
        """Return by how much jobs wait longer than on nodes that are always on, in the same replays [s]."""
        pairs = zip(self.each(log, policy), self.each(log, ALWAYS_ON), strict=False)
        return report.range_of([here.wait_s - there.wait_s for here, there in pairs])

    def at_energy(self, log: str, family: str, pct: float, measure: Measure) -> list[float | None]:
        """Return a figure of a family at a saving of `pct` of the idle energy, by replay; None if it never saves it."""
        replays = zip(*(self.each(log, policy) for policy in FAMILIES[family]), strict=True)
        return [between([(saved_pct(result), measure(result)) for result in replay], pct) for replay in replays]

    def bound(self, log: str, pct: int) -> float | None:
        """Return the fewest cycles that save that share if the future is known; None if a replay cannot save it."""
        found = [result.bound[pct] for result in self.each(log, ALWAYS_ON)]
        known = [value for value in found if value is not None]
        return fmean(known) if len(known) == len(found) else None

    def equal_energy_pct(self, log: str) -> int:
        """Return the share [%] at which families are compared; for other logs, what a time-out of 20 minutes saves."""
        for begins, pct in EQUAL_ENERGY_PCT.items():
            if log.startswith(begins):
                return pct
        return round(fmean(self.of(log, policy, saved_pct).mean for policy in FAMILIES[TIMEOUT][2:4]))


def between(points: Sequence[tuple[float, float]], x: float) -> float | None:
    """Return the height at `x` of the straight lines between points in order of x; None outside of them."""
    at, height = zip(*sorted(points), strict=True)
    return float(np.interp(x, at, height)) if at[0] <= x <= at[-1] else None


RANGES = "In brackets the lowest and the highest of the replays."
BOUND = "future known, no job moved"
FEWEST_REPLAYS = 6
"""With fewer replays all may have the same sign by chance."""


def policies_table(results: SleepingResults, logs: Sequence[str]) -> StudyTable:
    """Return a row for each log and policy."""
    return StudyTable(
        "policies",
        "Energy, delay and cycles of every rule",
        "Saved: the share of the idle nodes' energy. Delay: the mean time over all jobs for which only sleeping "
        "nodes kept a job from starting; delayed: the share of jobs for which this time is not 0. Cycles: per node "
        "and day. Longer: the increase of the mean wait over nodes that are always on, in the same replays; it is "
        f"significant if no replay of at least {FEWEST_REPLAYS} has another sign. {RANGES}",
        (
            "log", "policy", "saved [%]", "delay [s]", "delayed [%]", "cycles", "mean wait [s]", "longer [s]",
            "significant", "slowdown",
        ),
        tuple(_policy_row(results, log, policy) for log in logs for policy in POLICIES),
    )  # fmt: skip


def _policy_row(results: SleepingResults, log: str, policy: str) -> tuple[TableCell, ...]:
    longer = results.longer_s(log, policy)
    return (
        log,
        policy,
        results.of(log, policy, saved_pct),
        results.of(log, policy, delay_s),
        results.of(log, policy, lambda result: result.delayed_pct),
        results.of(log, policy, cycles),
        results.of(log, policy, lambda result: result.wait_s),
        longer,
        _beyond_chance(longer, len(results.each(log, policy))) if policy != ALWAYS_ON else None,
        results.of(log, policy, lambda result: result.slowdown),
    )


def _beyond_chance(longer: Range, replays: int) -> str | None:
    if replays < FEWEST_REPLAYS:
        return None
    return "no" if longer.low <= 0 <= longer.high else "yes"


def equal_energy_table(results: SleepingResults, logs: Sequence[str]) -> StudyTable:
    """Return a row for each log and family at the saving at which families are compared."""
    return StudyTable(
        "equal-energy",
        "At equal energy",
        "Each family at the same share of saved idle energy, interpolated linearly between its policies for each "
        "replay. Times: divided by the time-out's, in the same replays. Empty if a family does not save so much. "
        f"Last: the fewest cycles that save as much if the future is known and no job moves. {RANGES}",
        ("log", "saved [%]", "rule", "delay [s]", "times", "cycles", "times "),
        tuple(row for log in logs for row in _equal_rows(results, log)),
    )


def _equal_rows(results: SleepingResults, log: str) -> list[tuple[TableCell, ...]]:
    pct = results.equal_energy_pct(log)
    rows: list[tuple[TableCell, ...]] = [
        (log, str(pct), family, *_equal_cells(results, log, family)) for family in FAMILIES
    ]
    least, timeout = results.bound(log, pct), _range(results.at_energy(log, TIMEOUT, pct, cycles))
    times = least / timeout.mean if least is not None and timeout else None
    return [*rows, (log, str(pct), BOUND, 0.0, 0.0, least, times)]


def _equal_cells(results: SleepingResults, log: str, family: str) -> tuple[Range | None, ...]:
    pct = results.equal_energy_pct(log)
    found: list[Range | None] = []
    for measure in (delay_s, cycles):
        own, timeout = (results.at_energy(log, compared, pct, measure) for compared in (family, TIMEOUT))
        pairs = zip(own, timeout, strict=False)
        found += [_range(own), _range([here / there if here is not None and there else None for here, there in pairs])]
    return tuple(found)


def _range(values: Sequence[float | None]) -> Range | None:
    known = [value for value in values if value is not None]
    return report.range_of(known) if known else None


@dataclass(frozen=True)
class Style:
    """The look of a rule: its name in the legend, its colour, its mark, and whether the mark is hollow."""

    label: str
    colour: str
    marker: str
    hollow: bool = False
    size: float = 6.0


STYLES: Mapping[str, Style] = {
    TIMEOUT: Style("time-out, 5 min to 2 h", report.DARK, "o"),
    POOL: Style("green pool, 1 to 20 %", report.GREEN, "s"),
    FORECAST: Style("forecast, 20 min to 3 h", report.BLUE, "^"),
    LATE: Style("forecast-late, 20 min to 3 h", report.ORANGE, "v"),
    OLS: Style("ols:1h, SLA 5 to 200", report.VIOLET, "D"),
    AT_ONCE: Style("energy-aware: at once", report.DARK, "o", hollow=True),
    BREAK_EVEN: Style("break-even", report.DARK, "s", hollow=True, size=9.0),
    TWO_LEVEL: Style("two-level, by the load", report.DARK, "D", hollow=True),
}
RULES: Mapping[str, tuple[str, ...]] = {**FAMILIES, **{policy: (policy,) for policy in SINGLE}}
"""The policies of each style."""
BOUND_LABEL, RED = "least, future known, no job moved", "#b3261e"
FIGURE_NOTE = (
    "further right and further down is better; the upright grey line is where rules are compared at equal energy\n"
    "ols and two-level hold jobs back: few cycles, but waits that are in the table only"
)
LEAST_DELAY_S = 1.0


def front_svg(results: SleepingResults, logs: Sequence[str]) -> str:
    """Return the figure: for each log what a rule saves against a job's boot delay, and against a node's cycles."""

    def draw(figure: report.Figure, panels: Sequence[report.Axes]) -> None:
        for log, delays, wear in zip(logs, panels[::2], panels[1::2], strict=True):
            _plot_rules(results, log, delays, delay_s)
            delays.set_title(f"{log}: mean boot delay of a job [s], logarithmic")
            report.set_log_axis(delays)
            _plot_rules(results, log, wear, cycles)
            wear.set_title(f"{log}: power cycles of a node in a day")
            wear.set_ylim(bottom=0.0)
            shares = [pct for pct in SHARES_PCT if wear.get_xlim()[0] <= pct <= wear.get_xlim()[1]]
            bound = [results.bound(log, pct) for pct in shares]
            report.plot_line(wear, BOUND_LABEL, RED, shares, bound)
            wear.lines[-1].set_linestyle("--")
        report.add_legend(figure, panels[1], 3, FIGURE_NOTE)

    return report.draw_figure(len(logs), 2, height_in=1.3 + 3.2 * len(logs), draw=draw)


def _plot_rules(results: SleepingResults, log: str, axes: report.Axes, measure: Measure) -> None:
    axes.axvline(results.equal_energy_pct(log), color="#999999", linewidth=1.2)
    axes.set_xlabel("idle energy saved [%]")
    for rule, style in STYLES.items():
        saved = [results.of(log, policy, saved_pct).mean for policy in RULES[rule]]
        heights = [results.of(log, policy, measure).mean for policy in RULES[rule]]
        # The axis of delays is logarithmic.
        shown = [max(height, LEAST_DELAY_S) for height in heights] if measure is delay_s else heights
        report.plot_line(axes, style.label, style.colour, saved, shown, style.marker)
        axes.lines[-1].set(markersize=style.size, linestyle="none" if style.hollow else "-")
        axes.lines[-1].set_markerfacecolor("none" if style.hollow else style.colour)
    axes.set_xmargin(0.0)
    low_pct, high_pct = axes.get_xlim()
    axes.set_xlim(10 * math.floor(low_pct / 10), 10 * math.ceil(high_pct / 10))


RUN = "offpeak_studies.sleeping.run"
TITLE = "Nodes that sleep: energy, boot delays and power cycles of every rule"
SETUP_NOTE = (
    "setup: EASY with users' estimates; nodes of the class `sketch`: 150 W idle, 10 W off, 60 s down, 180 s up at 200 "
    "W; slowdown is 1 + wait / max(10 s, run)"
)


def sleeping(order: StudyOrder, progress: Progress) -> Report:
    """Return the report, of results that `order.out` has or that are computed now."""
    logs, left_out = find_logs(order.logs)
    replays = Replays(order.replays, order.seed)
    digests = {log.source.name: log.digest for log in logs}
    plan = [experiment for name in digests for policy in POLICIES for experiment in experiments(name, policy, replays)]
    keys = {experiment: result_key(RUN, experiment, digests[experiment.log], NODES) for experiment in plan}
    runner = Runner(RunOnLog.of(run, logs), TypeAdapter(SleepingResult))
    results = SleepingResults(results_of(runner, keys, order, progress), replays)
    machines = ", ".join(
        f"{log.source.name} {counted(machine.nodes, 'node')}"
        + (f" of {machine.units_per_node} units" if machine.units_per_node > 1 else "")
        for log, machine in ((log, machine_of(log)) for log in logs)
    )
    notes = (SETUP_NOTE, f"machines: {machines}", _replays_note(replays, len(keys)), *left_out)
    tables = (policies_table(results, tuple(digests)), equal_energy_table(results, tuple(digests)))
    return Report(TITLE, notes, tables, {"front.svg": front_svg(results, tuple(digests))})


def _replays_note(replays: Replays, count: int) -> str:
    return (
        f"{counted(replays.count, 'replay')} of each policy, with submit times 0 to 60 s later: "
        f"{replays.describe_seeds()}; a quarter as many of ols; {counted(count, 'experiment')}"
    )
