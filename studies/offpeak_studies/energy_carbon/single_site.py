"""The part single-site as a whole: testbeds and clusters by themselves, their tables, figures and the report.

The implied figures need no replay: what a testbed can save at most, and what it saved, follow from the printed totals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter

from offpeak.display import percent_text
from offpeak.model.constants import HOUR_S
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import bundled_node_class
from offpeak.report_tables import Range, Report, StudyTable, TableCell
from offpeak.text import counted
from offpeak_studies import report
from offpeak_studies.energy_carbon.paper import (
    DUNE,
    FEDERATED_SAVED_PCT,
    JUGGLE,
    SERVERS,
    TESTBEDS,
    WALLTIME_S,
    MeasuredCluster,
    MeasuredPair,
)
from offpeak_studies.energy_carbon.run import (
    ANY_WIDTH,
    AS_MEASURED,
    WORKLOADS,
    Measurement,
    Simulation,
    SimulationResult,
    SingleSiteExperiment,
    SingleSiteResult,
    depth_of,
    node_class_of,
    run,
)
from offpeak_studies.harness import Progress, Replays, Runner, StudyOrder, result_key, results_of

DISCIPLINES = {"FIFO": "fcfs", "BFF": "first-fit", "BBF": "best-fit"}
LOADS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2)
MAUI_PERIOD_S = 60


@dataclass(frozen=True)
class MeasurementChange:
    """One changed assumption: fields of a Measurement."""

    what: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def of(self, case: Measurement) -> Measurement:
        """Return the case with this change."""
        return replace(case, **self.fields)


NO_CHANGE = MeasurementChange("as above")
AT_ONCE = MeasurementChange("every idle node sleeps at once, needed or not", {"keeps": False})
CHANGES: Mapping[str, tuple[MeasurementChange, ...]] = {
    DUNE.name: (
        NO_CHANGE,
        AT_ONCE,
        MeasurementChange("Maui without backfilling", {"default": "fcfs"}),
        MeasurementChange("jobs of 1 to 4 nodes", {"widths": ANY_WIDTH}),
        MeasurementChange("jobs of 1 to 4 nodes, Maui without backfilling", {"widths": ANY_WIDTH, "default": "fcfs"}),
        MeasurementChange(f"all jobs ask for {WALLTIME_S} s", {"walltime_s": WALLTIME_S}),
        MeasurementChange(f"Maui looks at its queue every {MAUI_PERIOD_S} s", {"period_s": MAUI_PERIOD_S}),
    ),
    JUGGLE.name: (NO_CHANGE, AT_ONCE, MeasurementChange("PBS without overtaking", {"default": "fcfs"})),
}


def loads_of(testbed: MeasuredCluster) -> tuple[int, ...]:
    """Return the utilizations [%] at which a testbed ran jobs."""
    return tuple(load for load in next(iter(testbed.rows.values())) if load)


def cells(testbed: MeasuredCluster) -> list[Measurement]:
    """Return the cells of a testbed's table that have jobs."""
    return [Measurement(testbed.name, way, load, testbed.default) for way in testbed.rows for load in loads_of(testbed)]


def first_way(testbed: MeasuredCluster) -> list[Measurement]:
    """Return the cells of the first way to sleep, on which assumptions are changed."""
    way = next(iter(testbed.rows))
    return [case for case in cells(testbed) if case.way == way]


def as_measured(case: Measurement) -> Measurement:
    """Return the case with both elapsed times as the table has them."""
    return replace(case, reading=AS_MEASURED)


def experiments(case: Measurement | Simulation, replays: Replays) -> list[SingleSiteExperiment]:
    """Return the experiments of a case, one for each replay."""
    return [SingleSiteExperiment(case, replays.seed, replay) for replay in range(replays.count)]


def planned(replays: Replays) -> tuple[SingleSiteExperiment, ...]:
    """Return the experiments, each once."""
    cases: list[Measurement | Simulation] = []
    for testbed in TESTBEDS.values():
        cases += [read for case in cells(testbed) for read in (case, as_measured(case))]
        cases += [change.of(case) for change in CHANGES[testbed.name] for case in first_way(testbed)]
    cases += [
        Simulation(servers, discipline, load)
        for servers in SERVERS
        for discipline in DISCIPLINES.values()
        for load in LOADS
    ]
    return tuple(dict.fromkeys(experiment for case in cases for experiment in experiments(case, replays)))


@dataclass(frozen=True)
class SingleSiteResults:
    """All results of the part."""

    results: Mapping[SingleSiteExperiment, SingleSiteResult]
    replays: Replays

    def of(self, case: Measurement | Simulation, figure: str) -> Range:
        """Return the range of a field of the case's results over the replays."""
        return report.range_of(
            [getattr(self.results[experiment], figure) for experiment in experiments(case, self.replays)]
        )

    def waited_longer_s(self, case: Simulation) -> Range:
        """Return by how much the mean wait is longer under the energy-aware scheduler [s]."""
        found = (self.results[experiment] for experiment in experiments(case, self.replays))
        return report.range_of(
            [result.aware_wait_s - result.wait_s for result in found if isinstance(result, SimulationResult)]
        )


KJ = 1000.0


def empty_saved_pct(row: MeasuredPair, node_class: NodeClass, way: str, nodes: int) -> float:
    """Return what a cluster without jobs saves of the row's default energy: all nodes sleep from the first second."""
    depth = depth_of(node_class, way)
    asleep_s = row.aware.elapsed_s - depth.enter.duration_s
    return 100 * (1 - nodes * (depth.enter.energy_j + asleep_s * depth.power_w) / (row.default.energy_kj * KJ))


def ceiling_pct(row: MeasuredPair, node_class: NodeClass, way: str, nodes: int, load: float) -> float:
    """Return what the row would save if nodes without a job slept all the time, at no cost of transitions.

    The jobs keep that share of the default run's node time busy; the energy-aware run lasts as long.
    """
    asleep_w = depth_of(node_class, way).power_w
    jobs_w = row.default.power_w - (1 - load) * nodes * node_class.idle_w
    return 100 * (1 - (jobs_w + (1 - load) * nodes * asleep_w) / row.default.power_w)


def busy_share(row: MeasuredPair, node_class: NodeClass, way: str, nodes: int) -> float:
    """Return the share of the energy-aware run's node time in which nodes were not asleep, derived from its energy.

    The energy of the default run above idle nodes is taken to be that of the jobs in both runs.
    """
    jobs_j = row.default.energy_kj * KJ - nodes * node_class.idle_w * row.default.elapsed_s
    asleep_w = depth_of(node_class, way).power_w
    awake_j = row.aware.energy_kj * KJ - jobs_j - nodes * row.aware.elapsed_s * asleep_w
    return awake_j / (node_class.idle_w - asleep_w) / (nodes * row.aware.elapsed_s)


def equally_long_saved_pct(row: MeasuredPair, node_class: NodeClass, nodes: int) -> float:
    """Return the row's saving had the default run lasted as long as the energy-aware one, its nodes idle at the end."""
    longer_j = nodes * node_class.idle_w * (row.aware.elapsed_s - row.default.elapsed_s)
    return 100 * (1 - row.aware.energy_kj * KJ / (row.default.energy_kj * KJ + longer_j))


BAR_POINTS = 3.0
WORKLOAD_RANGES = f"In brackets the lowest and the highest of the replays, each the mean of {WORKLOADS} workloads."


def savings_table(results: SingleSiteResults, testbed: MeasuredCluster) -> StudyTable:
    """Return the testbed's table beside ours."""
    return StudyTable(
        testbed.name,
        f"{testbed.name.capitalize()}: savings compared with the paper's",
        "Savings in per cent of the default scheduler's energy, and of its average power. Elapsed: the time of the "
        f"energy-aware run divided by that of the default run. Within: no more than {BAR_POINTS:g} points from the "
        "paper's saving. As measured: both runs last as long as the paper's, and the utilization is the energy-aware "
        f"run's. At 0 % both follow from the draws of the nodes, which are taken from that column. {WORKLOAD_RANGES}",
        (
            "asleep by", "load", "saved", "paper", "within", "power saved", "paper", "elapsed", "paper",
            "saved, as measured",
        ),
        tuple(_empty_row(testbed, way) for way in testbed.rows)
        + tuple(_saved_row(results, testbed, case) for case in cells(testbed)),
    )  # fmt: skip


def _empty_row(testbed: MeasuredCluster, way: str) -> tuple[TableCell, ...]:
    row = testbed.rows[way][0]
    saved_pct = empty_saved_pct(row, node_class_of(testbed.name, way), way, testbed.nodes)
    return (
        way,
        "0 %",
        saved_pct,
        row.saved_pct,
        _within(saved_pct, row),
        None,
        row.power_saved_pct,
        None,
        row.elapsed_ratio,
        None,
    )


def _saved_row(results: SingleSiteResults, testbed: MeasuredCluster, case: Measurement) -> tuple[TableCell, ...]:
    row = testbed.rows[case.way][case.load_pct]
    saved_pct = results.of(case, "saved_pct")
    return (
        case.way,
        f"{case.load_pct} %",
        saved_pct,
        row.saved_pct,
        _within(saved_pct.mean, row),
        results.of(case, "power_saved_pct"),
        row.power_saved_pct,
        results.of(case, "elapsed_ratio"),
        row.elapsed_ratio,
        results.of(as_measured(case), "saved_pct"),
    )


def _within(saved_pct: float, row: MeasuredPair) -> str:
    return "yes" if abs(saved_pct - row.saved_pct) <= BAR_POINTS else "no"


def implied_table(testbeds: tuple[MeasuredCluster, ...]) -> StudyTable:
    """Return what the paper's totals imply."""
    return StudyTable(
        "implied",
        "What the paper's own totals imply",
        "By eq. (8): the saving of the printed power times the printed time. Ceiling: the saving if all nodes "
        "without a job slept all the time without drawing power, at the table's utilization of the default run. "
        "Awake: the share of node time in which nodes of the energy-aware run cannot have slept according to its "
        "energy. Equally long: the saving if the default run had lasted as long as the energy-aware one. Per cent.",
        ("testbed", "asleep by", "load", "saved", "by eq. (8)", "ceiling", "awake", "equally long"),
        tuple(_implied_row(testbed, case) for testbed in testbeds for case in cells(testbed)),
    )


def _implied_row(testbed: MeasuredCluster, case: Measurement) -> tuple[TableCell, ...]:
    row = testbed.rows[case.way][case.load_pct]
    node_class, nodes = node_class_of(testbed.name, case.way), testbed.nodes
    return (
        testbed.name,
        case.way,
        f"{case.load_pct} %",
        row.saved_pct,
        row.saved_by_product_pct,
        ceiling_pct(row, node_class, case.way, nodes, case.load_pct / 100),
        100 * busy_share(row, node_class, case.way, nodes),
        equally_long_saved_pct(row, node_class, nodes),
    )


def changes_table(results: SingleSiteResults, testbed: MeasuredCluster) -> StudyTable:
    """Return savings, elapsed times and wakes with one assumption changed."""
    loads = loads_of(testbed)
    return StudyTable(
        f"{testbed.name}-assumptions",
        f"{testbed.name.capitalize()}: changed assumptions",
        "Savings in per cent and elapsed times divided by the default's, by utilization. Far shorter: the share in "
        "per cent of workloads that first fit ends at least 15 % earlier than the default scheduler without sleeping "
        f"nodes. Wakes: wake-ups in a workload. {WORKLOAD_RANGES}",
        (
            "assumption",
            *(f"{what} at {load} %" for what in ("saved", "elapsed", "far shorter", "wakes") for load in loads),
        ),
        tuple(_change_row(results, testbed, change) for change in CHANGES[testbed.name]),
    )


def _change_row(
    results: SingleSiteResults, cluster: MeasuredCluster, change: MeasurementChange
) -> tuple[TableCell, ...]:
    cases = [change.of(case) for case in first_way(cluster)]
    saved = (results.of(case, "saved_pct") for case in cases)
    elapsed = (results.of(case, "elapsed_ratio").mean for case in cases)
    shorter = (100 * results.of(case, "far_shorter").mean for case in cases)
    wakes = (results.of(case, "wakes").mean for case in cases)
    return (change.what, *saved, *elapsed, *shorter, *wakes)


RANGES = "In brackets the lowest and the highest of the replays."


def clusters_table(results: SingleSiteResults) -> StudyTable:
    """Return the savings, a row for each cluster and load."""
    return StudyTable(
        "clusters",
        "Six schedulers on one cluster",
        "Energy that E-FIFO, E-BFF and E-BBF save compared with the same schedulers with nodes that stay on, and the "
        f"utilization of the latter: a load above it only makes the queue longer. Per cent. {RANGES}",
        ("servers", "load", *(f"E-{name}" for name in DISCIPLINES), *(f"utilization {name}" for name in DISCIPLINES)),
        tuple(_cluster_saved_row(results, servers, load) for servers in SERVERS for load in LOADS),
    )


def _cluster_saved_row(results: SingleSiteResults, servers: int, load: float) -> tuple[TableCell, ...]:
    cases = [Simulation(servers, discipline, load) for discipline in DISCIPLINES.values()]
    saved = (results.of(case, "saved_pct") for case in cases)
    used = (100 * results.of(case, "utilization").mean for case in cases)
    return (str(servers), _load_text(load), *saved, *used)


def waits_table(results: SingleSiteResults) -> StudyTable:
    """Return the waits, a row for each cluster and load."""
    headers = [head for name in DISCIPLINES for head in (f"wait {name}", f"longer by {name}", f"delay {name}")]
    return StudyTable(
        "waits",
        "Waits of the jobs",
        "Mean wait in hours; its increase under the energy-aware scheduler in minutes; and the mean time in minutes "
        f"for which only sleeping nodes kept a job from running. A boot takes 2.5 minutes. {RANGES}",
        ("servers", "load", *headers),
        tuple(_wait_row(results, servers, load) for servers in SERVERS for load in LOADS),
    )


def _wait_row(results: SingleSiteResults, servers: int, load: float) -> tuple[TableCell, ...]:
    found: list[TableCell] = [str(servers), _load_text(load)]
    for discipline in DISCIPLINES.values():
        case = Simulation(servers, discipline, load)
        longer = results.waited_longer_s(case)
        found += [
            results.of(case, "wait_s").mean / HOUR_S,
            Range(longer.mean / 60, longer.low / 60, longer.high / 60),
            results.of(case, "sleep_delay_s").mean / 60,
        ]
    return tuple(found)


def _load_text(load: float) -> str:
    return percent_text(100 * load)


RUN = "offpeak_studies.energy_carbon.run"
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
    """Return the report, of results that `order.out` has or that are computed now."""
    replays = Replays(order.replays, order.seed)
    keys = {experiment: result_key(RUN, experiment, NODE_CLASSES) for experiment in planned(replays)}
    runner: Runner[SingleSiteExperiment, SingleSiteResult] = Runner(run, TypeAdapter(SingleSiteResult))
    results = SingleSiteResults(results_of(runner, keys, order, progress), replays)
    replays_note = f"{replays.describe()}: {replays.describe_seeds()}; {counted(len(keys), 'experiment')}"
    notes = (TESTBED_NOTE, SCHEDULER_NOTE, CLUSTER_NOTE, replays_note)
    figures = {"testbeds.svg": testbeds_svg(results), "clusters.svg": clusters_svg(results)}
    return Report(TITLE, notes, _tables(results), figures)


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

    def draw(figure: report.Figure, panels: Sequence[report.Axes]) -> None:
        axes, rows = panels[0], range(len(cases))
        report.label_rows(axes, [f"{case.testbed}, {case.way}, {case.load_pct} %" for case in cases])
        axes.set_xlabel("energy saved [%]")
        report.plot_dots(
            axes,
            "paper",
            report.BLUE,
            [TESTBEDS[case.testbed].rows[case.way][case.load_pct].saved_pct for case in cases],
            rows,
        )
        measured = [results.of(as_measured(case), "saved_pct").mean for case in cases]
        report.plot_dots(axes, "as measured", report.LIGHT_ORANGE, measured, rows)
        report.plot_ranges(axes, "ours", report.ORANGE, rows, [results.of(case, "saved_pct") for case in cases])
        report.add_legend(figure, axes, 3)

    return report.draw_figure(1, 1, height_in=1.0 + 0.26 * len(cases), draw=draw)


def clusters_svg(results: SingleSiteResults) -> str:
    """Return the figure: the energy saved on each cluster over the load."""
    low, high = FEDERATED_SAVED_PCT
    colours = dict(zip(DISCIPLINES, (report.BLUE, report.ORANGE, report.GREEN), strict=True))

    def draw(figure: report.Figure, panels: Sequence[report.Axes]) -> None:
        for servers, axes in zip(SERVERS, panels, strict=True):
            axes.set_title(f"{servers} servers")
            axes.set_xlabel("load [%]")
            axes.axhspan(low, high, color=report.BAND, label=f"{low} to {high} %: the paper's three clusters together")
            for name, discipline in DISCIPLINES.items():
                saved = [results.of(Simulation(servers, discipline, load), "saved_pct").mean for load in LOADS]
                report.plot_line(axes, f"E-{name}", colours[name], [100 * load for load in LOADS], saved)
            axes.set_ylim(0.0, 80.0)
        panels[0].set_ylabel("energy saved [%]")
        report.add_legend(figure, panels[0], 4)

    return report.draw_figure(1, len(SERVERS), height_in=3.6, draw=draw, sharey=True)
