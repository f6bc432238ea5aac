"""The study's figure: what is saved by how much longer jobs wait, of the jobs' cost and of the machine's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from studies.online_simulation.colours import LOG_COLOURS, keys, svg, title
from studies.price_capacity.answers import Answers
from studies.price_capacity.experiment import BLIND, SLAS, TIMEOUT, profile
from studies.price_capacity.plan import START
from studies.price_capacity.plot import LEFT, PLOT, Plot
from studies.price_capacity.result import Result
from studies.report import Range

HEAD, FOOT = 80, 72
LEGEND = (
    f"dots on a line, from the left: profile with an SLA of {', '.join(f'{sla:g}' for sla in SLAS)} · "
    "ring: blind cap · square: time-out · upright lines: from the lowest to the highest replay"
)
Saved = Callable[[Result, str], float]


@dataclass(frozen=True)
class Point:
    """How many hours longer jobs wait on average, and what is saved [%]."""

    longer_h: float
    saved: Range


Points = dict[tuple[str, str], Point]
"""By log and policy."""


def trade_svg(answers: Answers, logs: Sequence[str]) -> str:
    """Return the figure: a panel for the jobs' cost, one for the machine's, the same waits in both."""
    panels: tuple[tuple[str, Saved], ...] = (
        ("saved of the cost of the jobs' energy [%]", Result.job_saved_pct),
        ("saved of the machine's cost, sleeping nodes included [%]", Result.saved_pct),
    )
    parts = [keys(colours_of(logs), 22), f'<text x="20" y="46" font-size="12">{LEGEND}</text>']
    for at, (name, saved) in enumerate(panels):
        below = HEAD + at * (PLOT + FOOT)
        panel = _panel(_points(answers, logs, saved), logs)
        parts.append(f'<g transform="translate(0 {below})">{title(name, LEFT, -8)}{panel}</g>')
    return svg(HEAD + len(panels) * (PLOT + FOOT), parts)


def colours_of(logs: Sequence[str]) -> dict[str, str]:
    """Return a colour for each log."""
    return {log: LOG_COLOURS[at % len(LOG_COLOURS)] for at, log in enumerate(logs)}


def _points(answers: Answers, logs: Sequence[str], saved: Saved) -> Points:
    policies = (*map(profile, SLAS), BLIND, TIMEOUT)
    return {(log, policy): _point(answers, log, policy, saved) for log in logs for policy in policies}


def _point(answers: Answers, log: str, policy: str, saved: Saved) -> Point:
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
