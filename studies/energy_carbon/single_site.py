"""The part single-site as a whole: testbeds and clusters by themselves, their figures and the report."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from offpeak.model.node_class_file import bundled_node_class
from offpeak.text import counted
from studies.energy_carbon.paper import DUNE, FEDERATED_SAVED_PCT, JUGGLE, SERVERS, TESTBEDS
from studies.energy_carbon.run import Simulation, SingleSiteExperiment, SingleSiteResult, run
from studies.energy_carbon.tables import (
    DISCIPLINES,
    LOADS,
    SingleSiteResults,
    as_measured,
    cells,
    changes_table,
    clusters_table,
    implied_table,
    planned,
    savings_table,
    waits_table,
)
from studies.figures import (
    BAND,
    BLUE,
    GREEN,
    LIGHT_ORANGE,
    ORANGE,
    add_legend,
    draw_figure,
    label_rows,
    plot_dots,
    plot_line,
    plot_ranges,
    require_matplotlib,
)
from studies.harness import Progress, Replays, Runner, StudyOrder, result_key, results_of
from studies.report import Report, StudyTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RUN = "studies.energy_carbon.run"
NODE_CLASSES = tuple(bundled_node_class(testbed) for testbed in TESTBEDS)
TITLE = "Energy and carbon aware scheduling: Majanen, Mämmelä and Giesler, re-run on single sites"
TESTBED_NOTE = (
    "testbeds: batches of 2 to 30 jobs, all submitted at once, run times differing up to twentyfold, of 1 or 2 nodes "
    "(on Juggle a tenth of 8), drawn until the default scheduler takes as long for one as the paper's and is as "
    "utilized, to one per cent; a node with a job draws what makes the default run's average power that of the paper"
)
SCHEDULER_NOTE = (
    "schedulers: first fit for E-BFF, EASY for Maui, first fit for PBS; an idle node sleeps at once, unless the first "
    "waiting job is expected to need it before sleep saves energy; nodes are of the bundled classes dune and juggle, "
    "all awake at the start"
)
CLUSTER_NOTE = (
    "clusters: 1,500 jobs of Table II, with random arrivals at a load (their requests divided by the capacity until "
    "the last submission), on nodes of the class dune that are switched off as soon as they are idle"
)


def single_site(order: StudyOrder, progress: Progress) -> Report:
    """Run the experiments whose results `order.out` does not have, and return the report.

    Raises BadInput, CannotWrite or OffpeakError.
    """
    order.refuse_logs("energy-carbon replays no logs: its workloads are drawn")
    require_matplotlib()
    replays = Replays(order.replays, order.seed)
    keys = {experiment: result_key(RUN, experiment, NODE_CLASSES) for experiment in planned(replays)}
    runner: Runner[SingleSiteExperiment, SingleSiteResult] = Runner(run, TypeAdapter(SingleSiteResult), _warm_up)
    results = SingleSiteResults(results_of(runner, keys, order, progress), replays)
    replays_note = f"{replays.describe()}: {replays.describe_seeds()}; {counted(len(keys), 'experiment')}"
    notes = (TESTBED_NOTE, SCHEDULER_NOTE, CLUSTER_NOTE, replays_note)
    figures = {"testbeds.svg": testbeds_svg(results), "clusters.svg": clusters_svg(results)}
    return Report(TITLE, notes, _tables(results), figures)


def _warm_up() -> None:
    for case in (cells(DUNE)[-1], Simulation(30, "fcfs", 0.2)):
        run(SingleSiteExperiment(case, 0, 0))


def _tables(results: SingleSiteResults) -> tuple[StudyTable, ...]:
    testbeds = (DUNE, JUGGLE)
    return (
        *(savings_table(results, testbed) for testbed in testbeds),
        implied_table(testbeds),
        *(changes_table(results, testbed) for testbed in testbeds),
        clusters_table(results),
        waits_table(results),
    )


def testbeds_svg(results: SingleSiteResults) -> str:
    """Return the figure: the energy saved in each cell of the testbeds' tables, beside the paper's."""
    cases = [case for testbed in TESTBEDS.values() for case in cells(testbed)]

    def draw(figure: "Figure", panels: Sequence["Axes"]) -> None:
        axes, rows = panels[0], range(len(cases))
        label_rows(axes, [f"{case.testbed}, {case.way}, {case.load_pct} %" for case in cases])
        axes.set_xlabel("energy saved [%]")
        plot_dots(
            axes,
            "paper",
            BLUE,
            [TESTBEDS[case.testbed].rows[case.way][case.load_pct].saved_pct for case in cases],
            rows,
        )
        measured = [results.of(as_measured(case), "saved_pct").mean for case in cases]
        plot_dots(axes, "as measured", LIGHT_ORANGE, measured, rows)
        plot_ranges(axes, "ours", ORANGE, rows, [results.of(case, "saved_pct") for case in cases])
        add_legend(figure, axes, 3)

    return draw_figure(1, 1, height_in=1.0 + 0.26 * len(cases), draw=draw)


def clusters_svg(results: SingleSiteResults) -> str:
    """Return the figure: the energy saved on each cluster over the load."""
    low, high = FEDERATED_SAVED_PCT
    colours = dict(zip(DISCIPLINES, (BLUE, ORANGE, GREEN), strict=True))

    def draw(figure: "Figure", panels: Sequence["Axes"]) -> None:
        for servers, axes in zip(SERVERS, panels, strict=True):
            axes.set_title(f"{servers} servers")
            axes.set_xlabel("load [%]")
            axes.axhspan(low, high, color=BAND, label=f"{low} to {high} %: the paper's three clusters together")
            for name, discipline in DISCIPLINES.items():
                saved = [results.of(Simulation(servers, discipline, load), "saved_pct").mean for load in LOADS]
                plot_line(axes, f"E-{name}", colours[name], [100 * load for load in LOADS], saved)
            axes.set_ylim(0.0, 80.0)
        panels[0].set_ylabel("energy saved [%]")
        add_legend(figure, panels[0], 4)

    return draw_figure(1, len(SERVERS), height_in=3.6, draw=draw, sharey=True)
