"""The part single-site as a whole: testbeds and clusters by themselves, run where results are missing, and the
report.

A key names a result by everything that it depends on: the experiment, the sources of `run`, and the node
classes.
"""

import hashlib
import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

from offpeak.compiled import sources_of
from offpeak.errors import BadInput
from offpeak.model.node_class_file import bundled_node_class
from offpeak.text import counted
from studies.energy_carbon.experiment import Simulation, SingleSiteExperiment, SingleSiteReplays, parse_result
from studies.energy_carbon.figures import clusters_svg, testbeds_svg
from studies.energy_carbon.paper import DUNE, JUGGLE, TESTBEDS
from studies.energy_carbon.plan import cells, planned
from studies.energy_carbon.run import run
from studies.energy_carbon.tables import (
    SingleSiteResults,
    changes_table,
    clusters_table,
    implied_table,
    savings_table,
    waits_table,
)
from studies.report import Report, StudyTable
from studies.resumable import Progress, Runner, StudyOrder, results_of

RUN = Path(__file__).with_name("run.py")


def key_of(experiment: SingleSiteExperiment) -> str:
    """Return the key of an experiment under the present code and node classes."""
    told = json.dumps([type(experiment.case).__name__, asdict(experiment), code_digest()])
    return hashlib.sha256(told.encode()).hexdigest()[:24]


@cache
def code_digest() -> str:
    """Return a digest of what a replay rests on: the sources of `run` and what it imports of ours, and the nodes."""
    digest = hashlib.sha256()
    for source in sources_of(RUN):
        digest.update(source.read_bytes())
    for testbed in TESTBEDS:
        digest.update(repr(bundled_node_class(testbed)).encode())
    return digest.hexdigest()


TITLE = "Energy and carbon aware scheduling: Majanen, Mämmelä and Giesler, re-run on single sites"
TESTBED_NOTE = (
    "testbeds: batches of 2 to 30 jobs, all submitted at once, run times differing up to twentyfold, of 1 or 2 nodes "
    "(on Juggle a tenth of 8), drawn until the default scheduler takes as long for one as the paper's and is as "
    "utilized, to one per cent; a node with a job draws what makes the default run's average power that of the paper"
)
SCHEDULER_NOTE = (
    "schedulers: first fit for E-BFF, EASY for Maui, first fit for PBS; an idle node sleeps at once, "
    "unless the first waiting job is expected to need it before it would have paid; nodes are the bundled classes dune "
    "and juggle, all awake at first"
)
CLUSTER_NOTE = (
    "clusters: 1,500 jobs of Table II, arriving at random at a load (what they ask for over what there is until the "
    "last one is submitted), on nodes of the class dune that are switched off as soon as they are idle"
)


def single_site(order: StudyOrder, progress: Progress) -> Report:
    """Run what `order.out` does not have yet, and return the report. BadInput, CannotWrite or OffpeakError."""
    if order.logs is not None:
        raise BadInput("energy-carbon replays no logs: its workloads are drawn", hint="leave --logs out")
    replays = SingleSiteReplays(order.replays, order.seed)
    keys = {experiment: key_of(experiment) for experiment in planned(replays)}
    results = results_of(Runner(run, parse_result, _warm_up), keys, order, progress)
    answers = SingleSiteResults(results, replays)
    notes = (TESTBED_NOTE, SCHEDULER_NOTE, CLUSTER_NOTE, _replays_note(replays, len(results)))
    figures = {"testbeds.svg": testbeds_svg(answers), "clusters.svg": clusters_svg(answers)}
    return Report(TITLE, notes, _tables(answers), figures)


def _warm_up() -> None:
    """Let the kernels be compiled here, once, before several processes would each begin to."""
    for case in (cells(DUNE)[-1], Simulation(30, "fcfs", 0.2)):
        run(SingleSiteExperiment(case, 0, 0))


def _replays_note(replays: SingleSiteReplays, count: int) -> str:
    return (
        f"{counted(replays.count, 'replay')} of each case: seeds ({replays.seed}, 0) to ({replays.seed}, "
        f"{replays.count - 1}); {counted(count, 'experiment')}"
    )


def _tables(answers: SingleSiteResults) -> tuple[StudyTable, ...]:
    testbeds = (DUNE, JUGGLE)
    return (
        *(savings_table(answers, testbed) for testbed in testbeds),
        implied_table(testbeds),
        *(changes_table(answers, testbed) for testbed in testbeds),
        clusters_table(answers),
        waits_table(answers),
    )
