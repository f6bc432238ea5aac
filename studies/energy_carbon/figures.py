"""The figures of the part single-site: the testbeds' savings by cell, and the clusters' savings over the load."""

from dataclasses import dataclass

from studies.energy_carbon.experiment import Measurement, Simulation
from studies.energy_carbon.paper import FEDERATED_SAVED_PCT, SERVERS, TESTBEDS
from studies.energy_carbon.plan import DISCIPLINES, LOADS, as_measured, cells
from studies.energy_carbon.tables import SingleSiteResults
from studies.report import Range
from studies.svg import WIDTH, legend_at, svg, text

TESTBED_LEFT, TESTBED_RIGHT, TESTBED_HEAD, TESTBED_ROW, TESTBED_FOOT = 210, 30, 50, 26, 30
OURS, MEASURED, PAPER = "ours", "as measured", "paper"
TESTBED_COLOURS = {OURS: "#c4570b", MEASURED: "#e8b48a", PAPER: "#1f62a8"}
TESTBED_STEP_PCT = 10


@dataclass(frozen=True)
class _Row:
    label: str
    ours: Range
    measured: float
    paper: float


def testbeds_svg(answers: SingleSiteResults) -> str:
    """Return the figure."""
    rows = [_row(answers, case) for testbed in TESTBEDS.values() for case in cells(testbed)]
    low = min(0.0, *(min(row.ours.low, row.measured) for row in rows))
    high = max(max(row.ours.high, row.measured, row.paper) for row in rows)
    scale = _Scale(low, high, TESTBED_HEAD + TESTBED_ROW * len(rows))
    marks = (_marks(row, TESTBED_HEAD + TESTBED_ROW * at + TESTBED_ROW // 2, scale) for at, row in enumerate(rows))
    return svg(
        scale.bottom + TESTBED_FOOT,
        [text("Energy saved", 10, 22), legend_at(TESTBED_COLOURS, TESTBED_LEFT, 22), scale.grid(), *marks],
    )


def _row(answers: SingleSiteResults, case: Measurement) -> _Row:
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
        return round(
            TESTBED_LEFT + (WIDTH - TESTBED_LEFT - TESTBED_RIGHT) * (pct - self.low) / (self.high - self.low),
            1,
        )

    def grid(self) -> str:
        """Return upright lines with their figures."""
        return "".join(
            f'<line x1="{self.x(pct)}" x2="{self.x(pct)}" y1="{TESTBED_HEAD}" y2="{self.bottom}" stroke="#ddd"/>'
            + text(f"{pct} %", self.x(pct), self.bottom + 18, anchor="middle")
            for pct in range(0, int(self.high) + 1, TESTBED_STEP_PCT)
        )


def _marks(row: _Row, middle: int, scale: _Scale) -> str:
    dots = {PAPER: row.paper, MEASURED: row.measured, OURS: row.ours.mean}
    low, high = scale.x(row.ours.low), scale.x(row.ours.high)
    return (
        text(row.label, 10, middle + 4)
        + f'<line x1="{low}" x2="{high}" y1="{middle}" y2="{middle}" stroke="{TESTBED_COLOURS[OURS]}"/>'
        + "".join(
            f'<circle cx="{scale.x(pct)}" cy="{middle}" r="5" fill="{TESTBED_COLOURS[name]}"/>'
            for name, pct in dots.items()
        )
    )


LEFT, GAP, HEAD, PLOT, FOOT = 60, 30, 80, 240, 40
PANEL = (WIDTH - LEFT - GAP * len(SERVERS)) / len(SERVERS)
MOST_PCT, STEP_PCT = 80, 20
COLOURS = {"E-FIFO": "#1f62a8", "E-BFF": "#c4570b", "E-BBF": "#3a7d2c"}
TICKS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)


def clusters_svg(answers: SingleSiteResults) -> str:
    """Return the figure; the band is what the paper has for three such clusters with round-robin."""
    low, high = FEDERATED_SAVED_PCT
    panels = (
        f'<g transform="translate({LEFT + at * (PANEL + GAP):.1f} 0)">{_panel(answers, servers)}</g>'
        for at, servers in enumerate(SERVERS)
    )
    band = text(f"grey: {low} to {high} %, the paper's three clusters together", 520, 22)
    head = text("Energy saved [%] over load [%]", 10, 22)
    return svg(HEAD + PLOT + FOOT, [head, legend_at(COLOURS, LEFT, 46), band, *panels])


def _panel(answers: SingleSiteResults, servers: int) -> str:
    low, high = FEDERATED_SAVED_PCT
    band = f'<rect x="0" y="{_y(high)}" width="{PANEL:.1f}" height="{_y(low) - _y(high)}" fill="#e4e4e4"/>'
    lines = (
        f'<path d="{_path(answers, servers, discipline)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for discipline, colour in zip(DISCIPLINES.values(), COLOURS.values(), strict=True)
    )
    return text(f"{servers} servers", 0, HEAD - 10) + band + _grid() + "".join(lines)


def _grid() -> str:
    across = (
        f'<line x1="0" x2="{PANEL:.1f}" y1="{_y(pct)}" y2="{_y(pct)}" stroke="#ccc"/>'
        + text(str(pct), -6, _y(pct) + 4, anchor="end")
        for pct in range(0, MOST_PCT + 1, STEP_PCT)
    )
    below = (text(f"{100 * load:.0f}", _x(load), HEAD + PLOT + 20, anchor="middle") for load in TICKS)
    return "".join((*across, *below))


def _path(answers: SingleSiteResults, servers: int, discipline: str) -> str:
    saved = [(load, answers.of(Simulation(servers, discipline, load), "saved_pct").mean) for load in LOADS]
    return "M" + " L".join(f"{_x(load)} {_y(pct)}" for load, pct in saved)


def _x(load: float) -> float:
    return round(PANEL * (load - LOADS[0]) / (LOADS[-1] - LOADS[0]), 1)


def _y(pct: float) -> float:
    return round(HEAD + PLOT * (1 - pct / MOST_PCT), 1)
