"""The clusters' figure: what each energy-aware scheduler saves over the load, a panel a cluster."""

from studies.energy_carbon.answers import Answers
from studies.energy_carbon.experiment import Simulation
from studies.energy_carbon.paper import FEDERATED_SAVED_PCT, SERVERS
from studies.energy_carbon.plan import DISCIPLINES, LOADS
from studies.energy_carbon.svg import WIDTH, keys, svg, text

LEFT, GAP, HEAD, PLOT, FOOT = 60, 30, 80, 240, 40
PANEL = (WIDTH - LEFT - GAP * len(SERVERS)) / len(SERVERS)
MOST_PCT, STEP_PCT = 80, 20
COLOURS = {"E-FIFO": "#1f62a8", "E-BFF": "#c4570b", "E-BBF": "#3a7d2c"}
TICKS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)


def clusters_svg(answers: Answers) -> str:
    """Return the figure; the band is what the paper has for three such clusters with round-robin."""
    low, high = FEDERATED_SAVED_PCT
    panels = (
        f'<g transform="translate({LEFT + at * (PANEL + GAP):.1f} 0)">{_panel(answers, servers)}</g>'
        for at, servers in enumerate(SERVERS)
    )
    band = text(f"grey: {low} to {high} %, the paper's three clusters together", 520, 22)
    head = text("Energy saved [%] over load [%]", 10, 22)
    return svg(HEAD + PLOT + FOOT, [head, keys(COLOURS, LEFT, 46), band, *panels])


def _panel(answers: Answers, servers: int) -> str:
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


def _path(answers: Answers, servers: int, discipline: str) -> str:
    saved = [(load, answers.of(Simulation(servers, discipline, load), "saved_pct").mean) for load in LOADS]
    return "M" + " L".join(f"{_x(load)} {_y(pct)}" for load, pct in saved)


def _x(load: float) -> float:
    return round(PANEL * (load - LOADS[0]) / (LOADS[-1] - LOADS[0]), 1)


def _y(pct: float) -> float:
    return round(HEAD + PLOT * (1 - pct / MOST_PCT), 1)
