"""NorduGrid: the drawn grid and its jobs, single experiments, and the table."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.executor import LocalProcesses
from offpeak_studies.day_ahead.nordugrid import (
    CORES,
    LONGEST_S,
    RUNTIME_H,
    SYSTEMS,
    ZONES,
    NordugridExperiment,
    NordugridResult,
    drawn_sites,
    log_of,
    places,
    run,
)
from offpeak_studies.day_ahead.nordugrid_study import key_of, nordugrid, planned, table_of
from offpeak_studies.harness import Replays, StudyOrder

RESULT = NordugridResult(1600.0, 100.0, 0.1, 0.2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prices")
    (folder / "NORDU").mkdir()
    hour = np.arange(40 * 24)
    for number, zone in enumerate(ZONES):
        price = 30 + number + 5 * np.sin(hour / 24 * 2 * np.pi)
        (folder / "NORDU" / f"{zone}.csv").write_text('"price"\n' + "\n".join(f"{each:.2f}" for each in price) + "\n")
    return folder


@pytest.fixture(scope="module")
def out(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    for place in places(folder, out).values():
        hour = np.loadtxt(place.prices, skiprows=1).reshape(-1, 24)
        np.save(place.kept, np.repeat(hour[:, None], 4, axis=1))
    return out


def test_the_grid_has_the_papers_systems_and_the_jobs_its_mean_run_time() -> None:
    rng = np.random.default_rng(1)
    sites = drawn_sites(rng)
    assert len(sites) == SYSTEMS == sum(ZONES.values())
    assert sum(site.units for site in sites) == pytest.approx(CORES, abs=SYSTEMS)
    log = log_of(sites, rng, 2000, 500)
    assert log.jobs.runtime_s.mean() / 3600 == pytest.approx(RUNTIME_H, rel=0.15)
    assert log.jobs.estimate_s.max() <= LONGEST_S
    assert log.brokered.sum() == 2000
    assert np.bincount(log.home, minlength=SYSTEMS).min() > 0


def test_cost_alone_is_cheapest_and_without_waits_one_system_gets_most(folder: Path, out: Path) -> None:
    base, cheap, inst = (
        run(NordugridExperiment(*strategy, 1, 0, jobs=60, history=300), folder, out)
        for strategy in (("baseline", 92.5), ("mcmf", 0.0), ("inst", 92.5))
    )
    assert cheap.cost_eur < 0.8 * base.cost_eur
    assert cheap.cost_eur <= inst.cost_eur
    assert inst.busiest_share > base.busiest_share


def test_the_table_has_the_paper_beside_ours() -> None:
    home = replace(RESULT, response_min=2000.0, cost_eur=0.2)
    table = table_of({"baseline": [home, home], "INST": [RESULT, RESULT], "MCMF, w_t = 0 %": [RESULT, RESULT]})
    assert all(len(row) == len(table.headers) for row in table.rows)
    inst, ours_alone = table.rows[1:]
    assert inst[3].mean == pytest.approx(20.0)
    assert inst[4] == pytest.approx(-174.2, abs=0.1)
    assert inst[7].mean == pytest.approx(50.0)
    assert ours_alone[2] is None


def test_the_study_knows_what_is_finished(folder: Path, out: Path, tmp_path: Path) -> None:
    for place in out.iterdir():
        (tmp_path / place.name).write_bytes(place.read_bytes())
    order = StudyOrder(None, tmp_path, 1, 1, LocalProcesses(1), prices=folder)
    lines = []

    def kept(done: int, total: int) -> None:
        lines.append((done, total))

    journal = tmp_path / "results.jsonl"
    journal.write_text("\n".join(json.dumps(each) for each in _known(folder, tmp_path)) + "\n")
    report = nordugrid(order, kept)
    assert lines == [(6, 6)]
    assert len(report.tables[0].rows) == 6
    assert any("drawn for each replay" in note for note in report.notes)


def _known(folder: Path, out: Path) -> list[object]:
    kept = [place.kept for place in places(folder, out).values()]
    return [
        {"key": key_of(experiment, kept), "of": asdict(experiment), "result": asdict(RESULT)}
        for experiment in planned(Replays(1, 1))
    ]


def test_missing_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="NorduGrid needs the prices of 2014: no NORDU/ in any folder"):
        nordugrid(StudyOrder(None, tmp_path, 1, 1, LocalProcesses(1)), lambda _done, _total: None)
