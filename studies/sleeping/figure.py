"""The study's figure: a row a log, what each rule saves against the boot delay of a job and the cycles of a node."""

import math
from collections.abc import Sequence

from studies.online_simulation.colours import svg, title
from studies.sleeping.answers import Answers, Figure, cycles, delay_s, saved_pct
from studies.sleeping.bound import SHARES_PCT
from studies.sleeping.experiment import ALWAYS_ON, FAMILIES, POLICIES, SINGLE
from studies.sleeping.legend import BOUND_LINE, LEGEND_HEIGHT, SINGLE_STYLES, STYLES, legend
from studies.sleeping.plot import Axis, Plane, Point

LEFT, BETWEEN, PANEL, PLOT, ROW = 45, 60, 375, 230, 315
LEAST_DELAY_S = 1.0


def front_svg(answers: Answers, logs: Sequence[str]) -> str:
    """Return the figure."""
    rows = (
        f'<g transform="translate({LEFT} {LEGEND_HEIGHT + 30 + at * ROW})">{_row(answers, log)}</g>'
        for at, log in enumerate(logs)
    )
    return svg(LEGEND_HEIGHT + len(logs) * ROW, [legend(), *rows])


def _row(answers: Answers, log: str) -> str:
    saved, delays, cycled = zip(
        *(_means(answers, log, policy) for policy in POLICIES if policy != ALWAYS_ON), strict=True
    )
    x = Axis(10 * math.floor(min(saved) / 10), 10 * math.ceil(max(saved) / 10 + 1e-9), PANEL)
    delay = Plane(x, Axis(max(LEAST_DELAY_S, min(delays)) / 1.2, max(10.0, *delays) * 1.2, PLOT, is_log=True))
    wear = Plane(x, Axis(0.0, max(0.1, *cycled) * 1.05, PLOT))
    return (
        _panel(answers, log, delay, delay_s, "mean boot delay of a job [s], logarithmic")
        + f'<g transform="translate({PANEL + BETWEEN} 0)">'
        + _panel(answers, log, wear, cycles, "power cycles a node and day")
        + f"{wear.line(_bound(answers, log, x), BOUND_LINE)}</g>"
    )


def _means(answers: Answers, log: str, policy: str) -> tuple[float, ...]:
    return tuple(answers.of(log, policy, figure).mean for figure in (saved_pct, delay_s, cycles))


def _panel(answers: Answers, log: str, plane: Plane, figure: Figure, name: str) -> str:
    parts = [title(f"{log}: {name}", 0, -10), plane.grid(), _compared(answers.equal_energy_pct(log), plane)]
    for family, policies in FAMILIES.items():
        points, style = [_point(answers, log, policy, figure) for policy in policies], STYLES[family]
        parts += [plane.line(points, style.line), *(style.mark(plane.place(point)) for point in points)]
    for policy in SINGLE:
        parts.append(SINGLE_STYLES[policy].mark(plane.place(_point(answers, log, policy, figure))))
    return "".join(parts)


def _point(answers: Answers, log: str, policy: str, figure: Figure) -> Point:
    return answers.of(log, policy, saved_pct).mean, answers.of(log, policy, figure).mean


def _compared(pct: int, plane: Plane) -> str:
    """Return what the axis below is, and an upright line at the energy at which families are compared."""
    at, below = plane.x.at(pct), plane.y.pixels + 36
    return (
        f'<text x="{plane.x.pixels / 2}" y="{below}" text-anchor="middle">idle energy saved [%]</text>'
        f'<line x1="{at}" x2="{at}" y1="0" y2="{plane.y.pixels}" stroke="#999" stroke-width="1.2"/>'
    )


def _bound(answers: Answers, log: str, x: Axis) -> list[Point]:
    shares = (pct for pct in SHARES_PCT if x.low <= pct <= x.high)
    found = ((float(pct), answers.bound(log, pct)) for pct in shares)
    return [(pct, least) for pct, least in found if least is not None]
