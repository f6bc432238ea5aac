"""The part as a whole, most of its results known from before."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from drawings import drawn_lines, drawn_marks

from offpeak.errors import BadInput
from offpeak.executor import LocalProcesses
from offpeak.report_tables import Report
from offpeak_studies.energy_carbon.run import (
    Measurement,
    MeasurementResult,
    Simulation,
    SimulationResult,
    SingleSiteExperiment,
    SingleSiteResult,
)
from offpeak_studies.energy_carbon.single_site import NODE_CLASSES, RUN, planned, single_site
from offpeak_studies.harness import JOURNAL, Replays, StudyOrder, result_key

LEFT = (Measurement("dune", "off", 90, "easy"), Simulation(30, "fcfs", 0.2))
KNOWN_CELL = MeasurementResult(40.0, 41.0, 1.0, 1.0, 0.0, 110.0, 0.5, 1.0)
KNOWN_POINT = SimulationResult(30.0, 0.6, 3600.0, 3720.0, 110.0)


def known(experiment: SingleSiteExperiment) -> SingleSiteResult:
    return KNOWN_CELL if isinstance(experiment.case, Measurement) else KNOWN_POINT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with made results of all experiments but two."""
    lines = [
        json.dumps(
            {
                "key": result_key(RUN, experiment, NODE_CLASSES),
                "of": asdict(experiment),
                "result": asdict(known(experiment)),
            }
        )
        for experiment in planned(Replays(1, 1))
        if experiment.case not in LEFT
    ]
    (tmp_path / JOURNAL).write_text("\n".join(lines) + "\n")
    return tmp_path


def report_of(folder: Path, progress: list[tuple[int, int]] | None = None) -> Report:
    order = StudyOrder(None, folder, replays=1, seed=1, executor=LocalProcesses(1))
    return single_site(order, lambda done, total: progress.append((done, total)) if progress is not None else None)


def test_only_what_is_missing_is_run(folder: Path) -> None:
    progress: list[tuple[int, int]] = []
    report_of(folder, progress)
    total = len(planned(Replays(1, 1)))
    assert progress == [(done, total) for done in (total - 2, total - 1, total)]
    kept = [json.loads(line)["of"] for line in (folder / JOURNAL).read_text().splitlines()]
    assert kept == [asdict(experiment) for experiment in planned(Replays(1, 1))]


def test_tables_and_figures_are_whole(folder: Path) -> None:
    tables = {table.name: table for table in report_of(folder).tables}
    assert list(tables) == [
        "dune",
        "juggle",
        "implied",
        "dune-assumptions",
        "juggle-assumptions",
        "clusters",
        "waits",
    ]
    assert all(len(row) == len(table.headers) for table in tables.values() for row in table.rows)
    within = [row[:2] + row[4:5] for row in tables["dune"].rows[:3]]
    assert within == [("off", "0 %", "yes"), ("off", "50 %", "no"), ("off", "80 %", "no")]
    figures, cells = report_of(folder).figures, 12
    assert drawn_marks(figures["testbeds.svg"]) == {
        f"panel-1-{name}": cells for name in ("paper", "as-measured", "ours")
    }
    assert drawn_lines(figures["clusters.svg"]) == {
        f"panel-{panel}-{name}" for panel in (1, 2, 3) for name in ("E-FIFO", "E-BFF", "E-BBF")
    }


def test_a_result_that_was_tampered_with_is_named(folder: Path) -> None:
    entry = json.loads((folder / JOURNAL).read_text().splitlines()[0])
    del entry["result"]["saved_pct"]
    (folder / JOURNAL).write_text(json.dumps(entry) + "\n")
    with pytest.raises(BadInput, match=f"{JOURNAL}: the result of key {entry['key']}: is no result of a study"):
        report_of(folder)
