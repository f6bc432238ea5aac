"""The part's figure: energy and CO2 saved by every scheduler and selection, over the paper's bands."""

from studies.energy_carbon.grid.answers import Answers
from studies.energy_carbon.grid.paper import AWARE_CHOSEN_SAVED_PCT, AWARE_SAVED_PCT, CO2_SAVED_PCT, FASTEST_SAVED_PCT
from studies.energy_carbon.grid.plan import choice
from studies.energy_carbon.grid.tables import co2, energy
from studies.energy_carbon.plan import DISCIPLINES
from studies.energy_carbon.svg import WIDTH, keys, svg, text
from studies.report import Range

LEFT, RIGHT, HEAD, ROW, FOOT = 210, 30, 50, 24, 30
MOST_PCT, STEP_PCT = 60, 10
COLOURS = {"energy": "#1f62a8", "CO2": "#3a7d2c"}
SHOWN = (
    ("FP", False, "energy", FASTEST_SAVED_PCT),
    ("RR", True, "energy", AWARE_SAVED_PCT),
    ("FP", True, "energy", AWARE_CHOSEN_SAVED_PCT),
    ("ECA", True, "energy", AWARE_CHOSEN_SAVED_PCT),
    ("ECA", True, "CO2", CO2_SAVED_PCT),
)


def grid_svg(answers: Answers) -> str:
    """Return the figure at the starting point's load: dots are means, lines their confidence intervals."""
    rows = [(shown, scheduler) for shown in SHOWN for scheduler in DISCIPLINES]
    bottom = HEAD + ROW * len(rows)
    head = text("Saved [%]; grey: the paper", 10, 22)
    marks = (_row(answers, *shown[:3], scheduler, HEAD + ROW * at) for at, (shown, scheduler) in enumerate(rows))
    bands = (_band(*shown[3], HEAD + ROW * at) for at, (shown, _) in enumerate(rows))
    return svg(bottom + FOOT, [head, keys(COLOURS, LEFT + 20, 22), *bands, _grid(bottom), *marks])


def _band(low_pct: int, high_pct: int, top: int) -> str:
    width = _x(high_pct) - _x(low_pct)
    return f'<rect x="{_x(low_pct)}" y="{top + 1}" width="{width:.1f}" height="{ROW - 2}" fill="#e4e4e4"/>'


def _row(answers: Answers, selection: str, asleep: bool, what: str, scheduler: str, top: int) -> str:
    case, base = choice(scheduler, selection, asleep=asleep), choice(scheduler, "RR", asleep=False)
    saved = answers.saved_pct(case, base, energy if what == "energy" else co2)
    name = f"{'E-' if asleep else ''}{scheduler} {selection}, {what}"
    return text(name, 10, top + 16) + _mark(saved, top + ROW // 2, COLOURS[what])


def _mark(saved: Range, y: int, colour: str) -> str:
    line = f'<line x1="{_x(saved.low)}" x2="{_x(saved.high)}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
    return f'{line}<circle cx="{_x(saved.mean)}" cy="{y}" r="5" fill="{colour}"/>'


def _grid(bottom: int) -> str:
    return "".join(
        f'<line x1="{_x(pct)}" x2="{_x(pct)}" y1="{HEAD}" y2="{bottom}" stroke="#ccc"/>'
        + text(str(pct), _x(pct), bottom + 18, anchor="middle")
        for pct in range(0, MOST_PCT + 1, STEP_PCT)
    )


def _x(pct: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * pct / MOST_PCT, 1)
