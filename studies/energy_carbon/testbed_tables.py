"""Tables of the testbeds: the paper's savings beside ours, what its totals imply, and assumptions made otherwise."""

from studies.energy_carbon.answers import Answers
from studies.energy_carbon.experiment import Measurement
from studies.energy_carbon.implied import busy_share, ceiling_pct, empty_saved_pct, equally_long_saved_pct
from studies.energy_carbon.measure import WORKLOADS
from studies.energy_carbon.nodes import node_class_of
from studies.energy_carbon.paper import Row, Testbed
from studies.energy_carbon.plan import CHANGES, Change, as_measured, cells, first_way, loads_of
from studies.report import Cell, Table

BAR_POINTS = 3.0
RANGES = f"In brackets the lowest and the highest of the replays, each the mean of {WORKLOADS} workloads."


def savings_table(answers: Answers, testbed: Testbed) -> Table:
    """Return the testbed's table beside ours."""
    return Table(
        testbed.name,
        f"{testbed.name.capitalize()}: savings beside the paper's",
        "Savings in per cent of the default scheduler's energy, and of its average power. Elapsed: the energy-aware "
        f"run's time over the default's. Within: no more than {BAR_POINTS:g} points from the paper's saving. As "
        "measured: both runs last as long as the paper's, and the utilization is the energy-aware run's. At 0 % both "
        f"follow from the node's figures, which are from that column. {RANGES}",
        (
            "asleep by",
            "load",
            "saved",
            "paper",
            "within",
            "power saved",
            "paper",
            "elapsed",
            "paper",
            "saved, as measured",
        ),
        tuple(_empty_row(testbed, way) for way in testbed.rows)
        + tuple(_saved_row(answers, testbed, case) for case in cells(testbed)),
    )


def _empty_row(testbed: Testbed, way: str) -> tuple[Cell, ...]:
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


def _saved_row(answers: Answers, testbed: Testbed, case: Measurement) -> tuple[Cell, ...]:
    row = testbed.rows[case.way][case.load_pct]
    saved_pct = answers.of(case, "saved_pct")
    return (
        case.way,
        f"{case.load_pct} %",
        saved_pct,
        row.saved_pct,
        _within(saved_pct.mean, row),
        answers.of(case, "power_saved_pct"),
        row.power_saved_pct,
        answers.of(case, "elapsed_ratio"),
        row.elapsed_ratio,
        answers.of(as_measured(case), "saved_pct"),
    )


def _within(saved_pct: float, row: Row) -> str:
    return "yes" if abs(saved_pct - row.saved_pct) <= BAR_POINTS else "no"


def implied_table(testbeds: tuple[Testbed, ...]) -> Table:
    """Return what the paper's totals say of themselves."""
    return Table(
        "implied",
        "What the paper's own totals imply",
        "By eq. (8): the saving of the printed power times the printed time. Ceiling: the saving if all nodes without "
        "a job slept all the time, for nothing, at the table's utilization of the default run. Awake: the share of "
        "node time in which nodes of the energy-aware run cannot have slept, by its energy. Equally long: the saving "
        "had the default run lasted as long as the energy-aware one. Per cent.",
        ("testbed", "asleep by", "load", "saved", "by eq. (8)", "ceiling", "awake", "equally long"),
        tuple(_implied_row(testbed, case) for testbed in testbeds for case in cells(testbed)),
    )


def _implied_row(testbed: Testbed, case: Measurement) -> tuple[Cell, ...]:
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


def changes_table(answers: Answers, testbed: Testbed) -> Table:
    """Return savings, elapsed times and wakes with one assumption changed."""
    loads = loads_of(testbed)
    return Table(
        f"{testbed.name}-assumptions",
        f"{testbed.name.capitalize()}: assumptions made otherwise",
        "Savings in per cent and elapsed times over the default's, by utilization. Far shorter: the per cent of "
        "workloads that first fit ends at least 15 % earlier than the default scheduler, no node asleep. Wakes: nodes "
        f"woken in a workload. {RANGES}",
        (
            "assumption",
            *(f"{what} at {load} %" for what in ("saved", "elapsed", "far shorter", "wakes") for load in loads),
        ),
        tuple(_change_row(answers, testbed, change) for change in CHANGES[testbed.name]),
    )


def _change_row(answers: Answers, testbed: Testbed, change: Change) -> tuple[Cell, ...]:
    cases = [change.of(case) for case in first_way(testbed)]
    saved = (answers.of(case, "saved_pct") for case in cases)
    elapsed = (answers.of(case, "elapsed_ratio").mean for case in cases)
    shorter = (100 * answers.of(case, "far_shorter").mean for case in cases)
    wakes = (answers.of(case, "wakes").mean for case in cases)
    return (change.what, *saved, *elapsed, *shorter, *wakes)
