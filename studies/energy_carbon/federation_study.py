"""The part federation as a whole: three simulated clusters and the testbed's three, its figure and its report."""

import hashlib
import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

from offpeak.compiled import sources_of
from offpeak.errors import BadInput
from offpeak.text import counted
from studies.energy_carbon.federation import (
    AWARE_CHOSEN_SAVED_PCT,
    AWARE_SAVED_PCT,
    CO2_SAVED_PCT,
    FASTEST_SAVED_PCT,
    FederationExperiment,
    parse_result,
    run,
)
from studies.energy_carbon.federation_tables import (
    LIMIT,
    LOAD,
    FederationResults,
    bench_table,
    choice,
    co2,
    co2_table,
    energy,
    limits_table,
    planned,
    saved_table,
    waits_table,
)
from studies.energy_carbon.plan import DISCIPLINES
from studies.report import Range, Report
from studies.resumable import Progress, Runner, StudyOrder, results_of
from studies.svg import WIDTH, legend_at, svg, text

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


def grid_svg(answers: FederationResults) -> str:
    """Return the figure at the starting point's load: dots are means, lines their confidence intervals."""
    rows = [(shown, scheduler) for shown in SHOWN for scheduler in DISCIPLINES]
    bottom = HEAD + ROW * len(rows)
    head = text("Saved [%]; grey: the paper", 10, 22)
    marks = (_row(answers, *shown[:3], scheduler, HEAD + ROW * at) for at, (shown, scheduler) in enumerate(rows))
    bands = (_band(*shown[3], HEAD + ROW * at) for at, (shown, _) in enumerate(rows))
    return svg(bottom + FOOT, [head, legend_at(COLOURS, LEFT + 20, 22), *bands, _grid(bottom), *marks])


def _band(low_pct: int, high_pct: int, top: int) -> str:
    width = _x(high_pct) - _x(low_pct)
    return f'<rect x="{_x(low_pct)}" y="{top + 1}" width="{width:.1f}" height="{ROW - 2}" fill="#e4e4e4"/>'


def _row(answers: FederationResults, selection: str, asleep: bool, what: str, scheduler: str, top: int) -> str:
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


TITLE = "Energy and carbon aware scheduling: Majanen, Mämmelä and Giesler's federations, re-run"
RUN = Path(__file__).with_name("federation.py")
CLUSTERS_NOTE = (
    "clusters: those of Table III, with 30, 40 and 50 nodes of the class dune and emissions by Table I, each charged "
    "until the last job of all has ended; 1,500 jobs of Table II, arriving at random at a load (what they ask for over "
    f"what all 120 nodes have until the last is submitted), {100 * LOAD:.0f} % where none is said"
)
ECA_NOTE = f"ECA: least CO2 among clusters with at most {LIMIT} jobs in the queue, FP where all have more"
BENCH_NOTE = (
    "testbed: 135 jobs, one a second, a tenth of them of 8 nodes that only Juggle has, the others of 8 cores; run "
    "times by LINPACK's ranks; each cluster draws the mean of the powers in Table IX until its own last job has ended"
)


def federation(order: StudyOrder, progress: Progress) -> Report:
    """Run what `order.out` does not have yet, and return the report. BadInput, CannotWrite or OffpeakError."""
    if order.logs is not None:
        raise BadInput("energy-carbon replays no logs: its workloads are drawn", hint="leave --logs out")
    keys = {experiment: key_of(experiment) for experiment in planned(order.replays, order.seed)}
    answers = FederationResults(
        results_of(Runner(run, parse_result, _warm_up), keys, order, progress), order.replays, order.seed
    )
    tables = (saved_table, co2_table, waits_table, limits_table, bench_table)
    notes = (CLUSTERS_NOTE, ECA_NOTE, BENCH_NOTE, _replays_note(order, len(keys)))
    return Report(TITLE, notes, tuple(table(answers) for table in tables), {"federation.svg": grid_svg(answers)})


def key_of(experiment: FederationExperiment) -> str:
    """Name the result of an experiment under the present code."""
    told = json.dumps([type(experiment.case).__name__, asdict(experiment), _code_digest()])
    return hashlib.sha256(told.encode()).hexdigest()[:24]


@cache
def _code_digest() -> str:
    digest = hashlib.sha256()
    for source in sources_of(RUN):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _warm_up() -> None:
    """Let the kernels be compiled here, once, before several processes would each begin to."""
    for asleep in (False, True):
        run(FederationExperiment(choice("FIFO", "FP", asleep=asleep, load=0.1), 0, 0))


def _replays_note(order: StudyOrder, count: int) -> str:
    return (
        f"{counted(order.replays, 'replay')} of each case: seeds ({order.seed}, 0) to ({order.seed}, "
        f"{order.replays - 1}); {counted(count, 'experiment')}"
    )
