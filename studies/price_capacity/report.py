"""Tables and figure of the study: what each policy saves, what jobs wait for it, and what load, spread and length
change.

The figure shows hours to the right and per cent up, in pixels of an SVG group.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from offpeak.model.constants import HOUR_S
from studies.price_capacity.run import (
    ALWAYS_ON,
    BLIND,
    FACTORS,
    FEW_SLAS,
    SLAS,
    START,
    TIMEOUT,
    CapacityExperiment,
    CapacityReplays,
    CapacityResult,
    CapacitySetup,
    experiments,
    profile,
)
from studies.report import Range, StudyTable, TableCell, range_of
from studies.svg import LOG_COLOURS, WIDTH, legend_row, svg, tick_step, title


@dataclass(frozen=True)
class CapacityResults:
    """All results of the study."""

    results: Mapping[CapacityExperiment, CapacityResult]
    replays: CapacityReplays

    def each(self, log: str, setup: CapacitySetup) -> Sequence[CapacityResult]:
        """Return the results of a setup's replays."""
        return [self.results[experiment] for experiment in experiments(log, setup, self.replays)]

    def of(self, log: str, setup: CapacitySetup, figure: Callable[[CapacityResult], float]) -> Range:
        """Return a figure over the replays."""
        return range_of([figure(result) for result in self.each(log, setup)])

    def saved_per_100_h(self, log: str, setup: CapacitySetup, policy: str) -> float | None:
        """Return what is saved of the machine's cost for 100 hours that jobs wait longer, all replays together.

        None where they do not wait longer.
        """
        results = self.each(log, setup)
        saved = sum(result.policies[0].cost - result.of(policy).cost for result in results)
        hours = sum(result.policies[0].jobs * result.longer_h(policy) for result in results)
        return 100 * saved / hours if hours > 0 else None


NAMES = {TIMEOUT: "time-out of 10 min", BLIND: "blind cap: half in the dearest 6 h of a day"}
WAITS = ("mean wait [h]", "longer [h]", "longer [%]", "slowdown")
IN_BRACKETS = "In brackets the lowest and the highest of the replays: where they differ in sign it may be chance."


def policies_table(answers: CapacityResults, logs: Sequence[str]) -> StudyTable:
    """Return a row a log and policy at the starting point."""
    return StudyTable(
        "policies",
        "What fewer nodes in dear hours save, and what jobs wait for it",
        "Against nodes that are always on, in the same replays. Jobs: what is saved of the cost of the jobs' energy, "
        "by moving them alone; machine: of the cost of all, sleeping nodes included. Longer: the mean wait. Per 100 h: "
        "what is saved of the machine's cost for 100 hours that jobs wait longer, in the prices' currency. "
        + IN_BRACKETS,
        ("log", "policy", "jobs [%]", "machine [%]", *WAITS, "per 100 h"),
        tuple(_policy_row(answers, log, policy) for log in logs for policy in START.policies),
    )


def _policy_row(answers: CapacityResults, log: str, policy: str) -> tuple[TableCell, ...]:
    figures: tuple[TableCell, ...] = (
        answers.of(log, START, lambda result: result.of(policy).mean_wait_s / HOUR_S),
        answers.of(log, START, lambda result: result.longer_h(policy)),
        answers.of(log, START, lambda result: result.longer_pct(policy)),
        answers.of(log, START, lambda result: result.of(policy).slowdown),
        answers.saved_per_100_h(log, START, policy),
    )
    return (log, name_of(policy), *saved(answers, log, START, policy), *figures)


def name_of(policy: str) -> str:
    """Return the policy as the tables call it."""
    return NAMES.get(policy, policy)


def saved(answers: CapacityResults, log: str, setup: CapacitySetup, policy: str) -> tuple[Range, Range]:
    """Return what a policy saves of the jobs' cost and of the machine's [%]."""

    def of_jobs(result: CapacityResult) -> float:
        return result.job_saved_pct(policy)

    def of_machine(result: CapacityResult) -> float:
        return result.saved_pct(policy)

    return answers.of(log, setup, of_jobs), answers.of(log, setup, of_machine)


def factors_table(answers: CapacityResults, logs: Sequence[str]) -> StudyTable:
    """Return a row a log and factor, for two SLAs."""
    headers = [header for sla in FEW_SLAS for header in _headers(sla)]
    rows = [(log, "starting point", "", START) for log in logs]
    rows += [(log, factor.name, factor.value, factor.setup) for log in logs for factor in FACTORS]
    return StudyTable(
        "factors",
        "What load, price spread and the length of jobs change",
        "Everything else as in the starting point. What is saved of the jobs' cost and of the machine's, and by how "
        f"many hours jobs wait longer, for an SLA of {FEW_SLAS[0]:g} and one of {FEW_SLAS[1]:g}; the time-out's "
        "saving of the machine's cost beside them. " + IN_BRACKETS,
        ("log", "factor", "", "mean wait [h]", *headers, "time-out: machine [%]"),
        tuple(
            (log, name, value, *_factor_cells(answers, log, setup))
            for log, name, value, setup in sorted(rows, key=lambda row: logs.index(row[0]))
        ),
    )


def _headers(sla: float) -> tuple[str, ...]:
    return f"{sla:g}: jobs [%]", f"{sla:g}: machine [%]", f"{sla:g}: longer [h]"


def _factor_cells(answers: CapacityResults, log: str, setup: CapacitySetup) -> tuple[TableCell, ...]:
    cells: list[TableCell] = [answers.of(log, setup, lambda result: result.of(ALWAYS_ON).mean_wait_s / HOUR_S)]
    for policy in map(profile, FEW_SLAS):
        cells += saved(answers, log, setup, policy)
        cells.append(answers.of(log, setup, lambda result, policy=policy: result.longer_h(policy)))  # type: ignore[misc]
    return (*cells, saved(answers, log, setup, TIMEOUT)[1])


LEFT, RIGHT, PLOT = 60, 30, 250
GRID = 'stroke="#ddd"'


@dataclass(frozen=True)
class Plot:
    """From `least_h` to `most_h` and from `low` to `high` per cent; both hold 0."""

    least_h: float
    most_h: float
    low: float
    high: float

    @classmethod
    def around(cls, hours: Sequence[float], saved: Sequence[Range]) -> "Plot":
        """Return the plane that holds all of these."""
        least_h, most_h = min(0.0, *hours), max(1e-9, *hours)
        low, high = min(0.0, *(each.low for each in saved)), max(1e-9, *(each.high for each in saved))
        return cls(least_h, most_h + 0.04 * (most_h - least_h), low, high + 0.04 * (high - low))

    def x(self, hours: float) -> float:
        """Return where a wait lies."""
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (hours - self.least_h) / (self.most_h - self.least_h), 1)

    def y(self, pct: float) -> float:
        """Return where a saving lies."""
        return round(PLOT * (self.high - pct) / (self.high - self.low), 1)

    def line(self, points: Sequence[tuple[float, float]], colour: str) -> str:
        """Return a line through hours and per cent."""
        places = " ".join(f"{self.x(hours)},{self.y(pct)}" for hours, pct in points)
        return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5"/>'

    def range(self, hours: float, saved: Range, colour: str) -> str:
        """Return an upright line from the lowest to the highest."""
        x = self.x(hours)
        ends = f'y1="{self.y(saved.low)}" y2="{self.y(saved.high)}"'
        return f'<line x1="{x}" x2="{x}" {ends} stroke="{colour}" stroke-opacity="0.5"/>'

    def dot(self, hours: float, pct: float, colour: str, fill: str) -> str:
        """Return a dot, or a ring if it is filled with white."""
        ring = f'fill="{fill}" stroke="{colour}" stroke-width="1.5"'
        return f'<circle cx="{self.x(hours)}" cy="{self.y(pct)}" r="4.5" {ring}/>'

    def square(self, hours: float, pct: float, colour: str) -> str:
        """Return a square."""
        corner = f'x="{self.x(hours) - 4.5:.1f}" y="{self.y(pct) - 4.5:.1f}"'
        return f'<rect {corner} width="9" height="9" fill="{colour}"/>'

    def grid(self) -> str:
        """Return the grid lines with their figures, and what the waits are."""
        upright = "".join(self._hour(hour) for hour in ticks(self.least_h, self.most_h))
        across = "".join(self._share(pct) for pct in ticks(self.low, self.high))
        at = f'x="{WIDTH - RIGHT}" y="{PLOT + 34}" text-anchor="end"'
        return f"{upright}{across}<text {at}>mean wait longer by [h]</text>"

    def _hour(self, hour: float) -> str:
        x = self.x(hour)
        line = f'<line x1="{x}" x2="{x}" y1="0" y2="{PLOT}" {GRID}/>'
        return f'{line}<text x="{x}" y="{PLOT + 16}" text-anchor="middle">{hour:g}</text>'

    def _share(self, pct: float) -> str:
        y = self.y(pct)
        line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" {GRID}/>'
        return f'{line}<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{pct:g}</text>'


def ticks(low: float, high: float) -> list[float]:
    """Return round values from `low` to `high`, 0 among them."""
    step = tick_step(high - low)
    return [step * at for at in range(-int(-low / step + 1e-9), int(high / step + 1e-9) + 1)]


HEAD, FOOT = 80, 72
LEGEND = (
    f"dots on a line, from the left: profile with an SLA of {', '.join(f'{sla:g}' for sla in SLAS)} · "
    "ring: blind cap · square: time-out · upright lines: from the lowest to the highest replay"
)
Saved = Callable[[CapacityResult, str], float]


@dataclass(frozen=True)
class Point:
    """How many hours longer jobs wait on average, and what is saved [%]."""

    longer_h: float
    saved: Range


Points = dict[tuple[str, str], Point]
"""By log and policy."""


def trade_svg(answers: CapacityResults, logs: Sequence[str]) -> str:
    """Return the figure: a panel for the jobs' cost, one for the machine's, the same waits in both."""
    panels: tuple[tuple[str, Saved], ...] = (
        ("saved of the cost of the jobs' energy [%]", CapacityResult.job_saved_pct),
        ("saved of the machine's cost, sleeping nodes included [%]", CapacityResult.saved_pct),
    )
    parts = [legend_row(colours_of(logs), 22), f'<text x="20" y="46" font-size="12">{LEGEND}</text>']
    for at, (name, saved) in enumerate(panels):
        below = HEAD + at * (PLOT + FOOT)
        panel = _panel(_points(answers, logs, saved), logs)
        parts.append(f'<g transform="translate(0 {below})">{title(name, LEFT, -8)}{panel}</g>')
    return svg(HEAD + len(panels) * (PLOT + FOOT), parts)


def colours_of(logs: Sequence[str]) -> dict[str, str]:
    """Return a colour for each log."""
    return {log: LOG_COLOURS[at % len(LOG_COLOURS)] for at, log in enumerate(logs)}


def _points(answers: CapacityResults, logs: Sequence[str], saved: Saved) -> Points:
    policies = (*map(profile, SLAS), BLIND, TIMEOUT)
    return {(log, policy): _point(answers, log, policy, saved) for log in logs for policy in policies}


def _point(answers: CapacityResults, log: str, policy: str, saved: Saved) -> Point:
    longer = answers.of(log, START, lambda result: result.longer_h(policy))
    return Point(longer.mean, answers.of(log, START, lambda result: saved(result, policy)))


def _panel(points: Points, logs: Sequence[str]) -> str:
    hours = [point.longer_h for point in points.values()]
    plot = Plot.around(hours, [point.saved for point in points.values()])
    return plot.grid() + "".join(_log(plot, points, log, colour) for log, colour in colours_of(logs).items())


def _log(plot: Plot, points: Points, log: str, colour: str) -> str:
    """Return a log's marks; those that are not on the line stand for policies without an SLA."""
    on_line = [points[log, profile(sla)] for sla in SLAS]
    blind, timeout = points[log, BLIND], points[log, TIMEOUT]
    ranges = "".join(plot.range(point.longer_h, point.saved, colour) for point in (*on_line, blind, timeout))
    dots = "".join(plot.dot(point.longer_h, point.saved.mean, colour, colour) for point in on_line)
    line = plot.line([(point.longer_h, point.saved.mean) for point in on_line], colour)
    ring = plot.dot(blind.longer_h, blind.saved.mean, colour, "#fff")
    return ranges + line + dots + ring + plot.square(timeout.longer_h, timeout.saved.mean, colour)
