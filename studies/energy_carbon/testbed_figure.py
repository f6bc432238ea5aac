"""The testbeds' figure: a row a cell of the paper's tables, its saving and ours."""

from dataclasses import dataclass

from studies.energy_carbon.answers import Answers
from studies.energy_carbon.experiment import Measurement
from studies.energy_carbon.paper import TESTBEDS
from studies.energy_carbon.plan import as_measured, cells
from studies.energy_carbon.svg import WIDTH, keys, svg, text
from studies.report import Range

LEFT, RIGHT, HEAD, ROW, FOOT = 210, 30, 50, 26, 30
OURS, MEASURED, PAPER = "ours", "as measured", "paper"
COLOURS = {OURS: "#c4570b", MEASURED: "#e8b48a", PAPER: "#1f62a8"}
STEP_PCT = 10


@dataclass(frozen=True)
class _Row:
    label: str
    ours: Range
    measured: float
    paper: float


def testbeds_svg(answers: Answers) -> str:
    """Return the figure."""
    rows = [_row(answers, case) for testbed in TESTBEDS.values() for case in cells(testbed)]
    low = min(0.0, *(min(row.ours.low, row.measured) for row in rows))
    high = max(max(row.ours.high, row.measured, row.paper) for row in rows)
    scale = _Scale(low, high, HEAD + ROW * len(rows))
    marks = (_marks(row, HEAD + ROW * at + ROW // 2, scale) for at, row in enumerate(rows))
    return svg(scale.bottom + FOOT, [text("Energy saved", 10, 22), keys(COLOURS, LEFT, 22), scale.grid(), *marks])


def _row(answers: Answers, case: Measurement) -> _Row:
    label = f"{case.testbed}, {case.way}, {case.load_pct} %"
    measured = answers.of(as_measured(case), "saved_pct").mean
    paper = TESTBEDS[case.testbed].rows[case.way][case.load_pct].saved_pct
    return _Row(label, answers.of(case, "saved_pct"), measured, paper)


@dataclass(frozen=True)
class _Scale:
    """Per cent to pixels, over rows that end at `bottom`."""

    low: float
    high: float
    bottom: int

    def x(self, pct: float) -> float:
        """Return where a saving lies."""
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (pct - self.low) / (self.high - self.low), 1)

    def grid(self) -> str:
        """Return upright lines with their figures."""
        return "".join(
            f'<line x1="{self.x(pct)}" x2="{self.x(pct)}" y1="{HEAD}" y2="{self.bottom}" stroke="#ddd"/>'
            + text(f"{pct} %", self.x(pct), self.bottom + 18, anchor="middle")
            for pct in range(0, int(self.high) + 1, STEP_PCT)
        )


def _marks(row: _Row, middle: int, scale: _Scale) -> str:
    dots = {PAPER: row.paper, MEASURED: row.measured, OURS: row.ours.mean}
    low, high = scale.x(row.ours.low), scale.x(row.ours.high)
    return (
        text(row.label, 10, middle + 4)
        + f'<line x1="{low}" x2="{high}" y1="{middle}" y2="{middle}" stroke="{COLOURS[OURS]}"/>'
        + "".join(
            f'<circle cx="{scale.x(pct)}" cy="{middle}" r="5" fill="{COLOURS[name]}"/>' for name, pct in dots.items()
        )
    )
