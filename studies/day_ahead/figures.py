"""The figures of the part XSEDE: the trade between response and cost, and loads and power by the hour."""

from collections.abc import Callable, Sequence

from studies.day_ahead.experiment import DayAheadResult, StrategyCase
from studies.day_ahead.plan import INST, STRATEGIES, TWO_PRICE, by_weight
from studies.day_ahead.tables import DayAheadResults, cost, response
from studies.svg import WIDTH, legend_row, svg, tick_step, title

LEFT, RIGHT, HEAD, PLOT, FOOT = 70, 30, 70, 260, 50
COLOURS = {"MCMF by w_t": "#1f62a8", "INST": "#c4570b", "TWOPRICE": "#3a7d2c", "baseline": "#777777"}
HOURLY = {"baseline": "#777777", "MCMF": "#1f62a8", "INST": "#c4570b", "TWOPRICE": "#3a7d2c"}
PANELS = (("load_h", "Mason"), ("load_h", "Gordon"), ("power_w", "Blacklight"), ("power_w", "Lonestar"))
PANEL_PLOT, PANEL = 130, 200
CROWDED_PCT = 10.0
"""The weight whose label stands below its dot: beside it are others."""


def trade_svg(answers: DayAheadResults) -> str:
    """Return response over cost: MCMF as a line by w_t, the others as dots."""
    answers = answers.shared((*by_weight(), *STRATEGIES.values()))
    line = [_point(answers, case) for case in by_weight()]
    dots = {name: _point(answers, STRATEGIES[name]) for name in ("INST", "TWOPRICE", "baseline")}
    x, y = _scale([p[0] for p in (*line, *dots.values())]), _scale([p[1] for p in (*line, *dots.values())])
    path = " ".join(f"{_x(x, minutes)},{_y(y, usd)}" for minutes, usd in line)
    marks = [f'<polyline points="{path}" fill="none" stroke="{COLOURS["MCMF by w_t"]}" stroke-width="1.5"/>']
    for case, (minutes, usd) in zip(by_weight(), line, strict=True):
        marks.append(_dot(_x(x, minutes), _y(y, usd), COLOURS["MCMF by w_t"]))
        below = 18 if case.time_pct == CROWDED_PCT else -6
        label_at = f'x="{_x(x, minutes) + 7}" y="{_y(y, usd) + below}"'
        marks.append(f'<text {label_at} font-size="11">{case.time_pct:g} %</text>')
    marks += [_dot(_x(x, minutes), _y(y, usd), COLOURS[name]) for name, (minutes, usd) in dots.items()]
    head = title("cost of all jobs [USD] over mean response [min]", 20, 50)
    return svg(HEAD + PLOT + FOOT, [legend_row(COLOURS, 22), head, _grid(x, y), *marks])


def _point(answers: DayAheadResults, case: StrategyCase) -> tuple[float, float]:
    return answers.of(case, response).mean, answers.of(case, cost).mean


def _scale(values: Sequence[float]) -> tuple[float, float]:
    margin = 0.08 * (max(values) - min(values)) or 1.0
    return min(values) - margin, max(values) + margin


def _x(scale: tuple[float, float], value: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * (value - scale[0]) / (scale[1] - scale[0]), 1)


def _y(scale: tuple[float, float], value: float) -> float:
    return round(HEAD + PLOT * (scale[1] - value) / (scale[1] - scale[0]), 1)


def _dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/>'


def _ticks(scale: tuple[float, float]) -> list[float]:
    step = tick_step(scale[1] - scale[0])
    return [step * at for at in range(int(scale[0] / step) + 1, int(scale[1] / step) + 1)]


def _grid(x: tuple[float, float], y: tuple[float, float]) -> str:
    upright = (
        f'<line x1="{_x(x, tick)}" x2="{_x(x, tick)}" y1="{HEAD}" y2="{HEAD + PLOT}" stroke="#ddd"/>'
        f'<text x="{_x(x, tick)}" y="{HEAD + PLOT + 18}" text-anchor="middle">{tick:g}</text>'
        for tick in _ticks(x)
    )
    across = (
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(y, tick)}" y2="{_y(y, tick)}" stroke="#ddd"/>'
        f'<text x="{LEFT - 8}" y="{_y(y, tick) + 4}" text-anchor="end">{tick:g}</text>'
        for tick in _ticks(y)
    )
    return "".join((*upright, *across))


def hours_svg(answers: DayAheadResults) -> str:
    """Return loads of Mason and Gordon, and draws of Blacklight and Lonestar, over the first hundred hours."""
    cases = {"baseline": STRATEGIES["baseline"], "MCMF": by_weight()[2], "INST": INST, "TWOPRICE": TWO_PRICE}
    parts = [legend_row(HOURLY, 22)]
    for at, (figure, site) in enumerate(PANELS):
        number = answers.sites.index(site)
        lines = {name: _hours(answers, case, _column(figure, number)) for name, case in cases.items()}
        what = "load [h]" if figure == "load_h" else "draw [kW]"
        parts.append(f'<g transform="translate(0 {60 + at * PANEL})">{title(f"{site}: {what}", LEFT, -8)}')
        parts.append(f"{_panel(lines)}</g>")
    return svg(60 + PANEL * len(PANELS), parts)


def _column(figure: str, site: int) -> Callable[[DayAheadResult], Sequence[float]]:
    scale = 1.0 if figure == "load_h" else 1e-3
    return lambda result: [scale * value for value in getattr(result, figure)[site]]


def _hours(
    answers: DayAheadResults, case: StrategyCase, column: Callable[[DayAheadResult], Sequence[float]]
) -> Sequence[float]:
    return column(answers.each(case)[0])


def _panel(lines: dict[str, Sequence[float]]) -> str:
    most = max(max(values) for values in lines.values()) * 1.05 or 1.0
    step, hours = tick_step(most), len(next(iter(lines.values())))
    across = (_level(step * at, most) for at in range(int(most / step) + 1))
    below = (
        f'<text x="{_along(hour, hours)}" y="{PANEL_PLOT + 18}" text-anchor="middle">{hour}</text>'
        for hour in range(0, hours + 1, 20)
    )
    drawn = (_line(values, most, HOURLY[name]) for name, values in lines.items())
    return "".join((*across, *below, *drawn))


def _level(value: float, most: float) -> str:
    y = _up(value, most)
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>'
    return f'{line}<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{value:g}</text>'


def _line(values: Sequence[float], most: float, colour: str) -> str:
    points = " ".join(f"{_along(hour, len(values))},{_up(value, most)}" for hour, value in enumerate(values))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _along(hour: int, hours: int) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * hour / hours, 1)


def _up(value: float, most: float) -> float:
    return round(PANEL_PLOT * (1 - value / most), 1)
