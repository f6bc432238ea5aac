"""The part single-site: testbeds and clusters by themselves, run where results are missing, and what they come to."""

from offpeak.errors import BadInput
from offpeak.text import counted
from studies.energy_carbon.answers import Answers
from studies.energy_carbon.cluster_figure import clusters_svg
from studies.energy_carbon.cluster_tables import clusters_table, waits_table
from studies.energy_carbon.experiment import Experiment, Replays, Simulation
from studies.energy_carbon.keys import key_of
from studies.energy_carbon.paper import DUNE, JUGGLE
from studies.energy_carbon.plan import cells, planned
from studies.energy_carbon.result import parse_result
from studies.energy_carbon.run import run
from studies.energy_carbon.testbed_figure import testbeds_svg
from studies.energy_carbon.testbed_tables import changes_table, implied_table, savings_table
from studies.order import Order, Progress
from studies.report import Report, Table
from studies.resumable import Runner, results_of

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


def single_site(order: Order, progress: Progress) -> Report:
    """Run what `order.out` does not have yet, and return the report. BadInput, CannotWrite or OffpeakError."""
    if order.logs is not None:
        raise BadInput("energy-carbon replays no logs: its workloads are drawn", hint="leave --logs out")
    replays = Replays(order.replays, order.seed)
    keys = {experiment: key_of(experiment) for experiment in planned(replays)}
    results = results_of(Runner(run, parse_result, _warm_up), keys, order, progress)
    answers = Answers(results, replays)
    notes = (TESTBED_NOTE, SCHEDULER_NOTE, CLUSTER_NOTE, _replays_note(replays, len(results)))
    figures = {"testbeds.svg": testbeds_svg(answers), "clusters.svg": clusters_svg(answers)}
    return Report(TITLE, notes, _tables(answers), figures)


def _warm_up() -> None:
    """Let the kernels be compiled here, once, before several processes would each begin to."""
    for case in (cells(DUNE)[-1], Simulation(30, "fcfs", 0.2)):
        run(Experiment(case, 0, 0))


def _replays_note(replays: Replays, count: int) -> str:
    return (
        f"{counted(replays.count, 'replay')} of each case: seeds ({replays.seed}, 0) to ({replays.seed}, "
        f"{replays.count - 1}); {counted(count, 'experiment')}"
    )


def _tables(answers: Answers) -> tuple[Table, ...]:
    testbeds = (DUNE, JUGGLE)
    return (
        *(savings_table(answers, testbed) for testbed in testbeds),
        implied_table(testbeds),
        *(changes_table(answers, testbed) for testbed in testbeds),
        clusters_table(answers),
        waits_table(answers),
    )
