"""The part federation: three simulated clusters and the testbed's three, run where results are missing."""

import hashlib
import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

from offpeak.compiled import sources_of
from offpeak.errors import BadInput
from offpeak.text import counted
from studies.energy_carbon.grid.answers import Answers
from studies.energy_carbon.grid.experiment import Experiment
from studies.energy_carbon.grid.figure import grid_svg
from studies.energy_carbon.grid.plan import LIMIT, LOAD, choice, planned
from studies.energy_carbon.grid.result import parse_result
from studies.energy_carbon.grid.run import run
from studies.energy_carbon.grid.tables import bench_table, co2_table, limits_table, saved_table, waits_table
from studies.order import Order, Progress
from studies.report import Report
from studies.resumable import Runner, results_of

TITLE = "Energy and carbon aware scheduling: Majanen, Mämmelä and Giesler's federations, re-run"
RUN = Path(__file__).with_name("run.py")
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


def federation(order: Order, progress: Progress) -> Report:
    """Run what `order.out` does not have yet, and return the report. BadInput, CannotWrite or OffpeakError."""
    if order.logs is not None:
        raise BadInput("energy-carbon replays no logs: its workloads are drawn", hint="leave --logs out")
    keys = {experiment: key_of(experiment) for experiment in planned(order.replays, order.seed)}
    answers = Answers(results_of(Runner(run, parse_result, _warm_up), keys, order, progress), order.replays, order.seed)
    tables = (saved_table, co2_table, waits_table, limits_table, bench_table)
    notes = (CLUSTERS_NOTE, ECA_NOTE, BENCH_NOTE, _replays_note(order, len(keys)))
    return Report(TITLE, notes, tuple(table(answers) for table in tables), {"federation.svg": grid_svg(answers)})


def key_of(experiment: Experiment) -> str:
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
        run(Experiment(choice("FIFO", "FP", asleep=asleep, load=0.1), 0, 0))


def _replays_note(order: Order, count: int) -> str:
    return (
        f"{counted(order.replays, 'replay')} of each case: seeds ({order.seed}, 0) to ({order.seed}, "
        f"{order.replays - 1}); {counted(count, 'experiment')}"
    )
