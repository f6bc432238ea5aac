"""The study on a small machine, and on a day of the real log where there is one."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from drawings import drawn_lines
from pydantic import TypeAdapter

from offpeak.errors import BadInput
from offpeak.executor import LocalProcesses
from offpeak_studies.harness import StudyOrder
from offpeak_studies.profit_cooling import study
from offpeak_studies.profit_cooling.run import (
    DAYS,
    SCENARIOS,
    CoolingExperiment,
    CoolingResult,
    curie_jobs,
    find_log,
    run,
    work_of,
)
from offpeak_studies.profit_cooling.solvers import RULE_BASED, TOO_LITTLE_TIME
from offpeak_studies.profit_cooling.study import (
    SEARCHES,
    SOLVERS,
    behind_svg,
    efficiency_table,
    gains_table,
    gaps_table,
    makespans_table,
    profit_cooling,
    searches_svg,
    searches_table,
    solvers_table,
    study_notes,
)
from offpeak_studies.workloads.generate import lublin_jobs

READ = TypeAdapter(CoolingResult).validate_python


@pytest.fixture(scope="module")
def jobs():
    drawn = lublin_jobs(200, machine_size=256, seed=1, load=1.5)
    return replace(drawn, submit_s=drawn.submit_s - drawn.submit_s[0])


def test_two_days_and_what_is_behind_them(jobs) -> None:
    for solver in ["strict EST", "non-strict WT", "multi"]:
        result = run(
            CoolingExperiment("air summer", solver, 60.0, 1), jobs.take(jobs.submit_s < 2 * 86400), nodes=8, days=2
        )
        assert result.violations == 0
        assert len(result.profit) == 2
        assert result.plans >= 3
        assert result.pue == pytest.approx(1.43, abs=0.05)
        assert result.makespan_s > 2 * 86400 - 1 or sum(result.profit) > 0
        assert len(result.gap) == (2 if solver == "multi" else 0)
        assert all(-1e-6 <= gap < 1 for gap in result.gap)


def test_plans_that_a_search_has_not_made_itself_are_counted_with_the_reason(jobs) -> None:
    few = jobs.take(jobs.submit_s < 86400)
    result = run(CoolingExperiment("air summer", "relaxation", 0.1, 1), few, nodes=8, days=1)
    note = f"relaxation search: {TOO_LITTLE_TIME}"
    assert result.notes == (note,) * result.plans
    assert READ(json.loads(json.dumps(asdict(result)))) == result
    notes = study_notes(len(few), {("air summer", "relaxation"): result}, 0.1)
    assert notes[-1] == f"{result.plans} plans that the search has not made itself but began with: {note}"
    assert run(CoolingExperiment("air summer", "multi", 0.1, 1), few, nodes=8, days=1).notes == ()


def test_only_searches_get_the_search_time(shared, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {}

    def stop(_runner, keys, _order, _progress):
        given.update({experiment.solver: experiment.search_s for experiment in keys})
        raise BadInput("enough")

    monkeypatch.setattr(study, "results_of", stop)
    for seconds in (4000.0, None):
        order = StudyOrder(shared / "data" / "traces", tmp_path, 1, 1, LocalProcesses(1), search_s=seconds)
        with pytest.raises(BadInput, match="enough"):
            profit_cooling(order, lambda *_: None)
        searched = {solver for solver, search_s in given.items() if search_s == (seconds or study.SEARCH_S)}
        assert searched == {"default", "relaxation", "delay", "neighbourhood"}


def test_units_are_equal_and_fit_their_nodes(jobs) -> None:
    work = work_of(jobs, 1)
    assert (work.cores <= 32).all()
    assert (work.units * work.cores >= jobs.size).all()
    assert (work.memory_mb <= 128 * 1024).all()
    watts_a_core = work.power_w / jobs.size
    assert watts_a_core.min() >= 7.8
    assert watts_a_core.max() <= 11.11
    assert np.array_equal(work_of(jobs, 3).power_w, work_of(jobs, 3).power_w)
    assert not np.array_equal(work_of(jobs, 3).power_w, work_of(jobs, 4).power_w)


def test_without_the_log_there_is_a_clear_line(tmp_path) -> None:
    with pytest.raises(BadInput, match="the study needs the log CEA-curie"):
        find_log(None)
    with pytest.raises(BadInput, match=r"has no CEA-curie\.swf\.gz"):
        profit_cooling(StudyOrder(tmp_path, tmp_path, 1, 1, LocalProcesses(1)), lambda *_: None)


def test_the_papers_days_are_in_the_log(shared) -> None:
    jobs = curie_jobs(find_log(shared / "data" / "traces"))
    assert len(jobs) == 32_192
    assert 0 <= jobs.submit_s.min() <= jobs.submit_s.max() < DAYS * 86400


def results():
    each = CoolingResult((250_000.0,) * DAYS, (0.01,) * DAYS, 54 * 86400, 1.1, 100.0, 50.0, 13, 26, 0, ())
    better = replace(each, profit=(255_000.0,) * DAYS, makespan_s=53 * 86400)
    return {
        (scenario, solver): each if solver in RULE_BASED else better for scenario in SCENARIOS for solver in SOLVERS
    }


def test_tables_put_our_gains_beside_the_papers() -> None:
    row = gains_table(results()).rows[0]
    assert row[:3] == ("air winter", "multi", "strict EST")
    assert row[3] == pytest.approx(2.0)
    assert row[5] == "strict EST"
    assert row[6] == row[8] == pytest.approx(2.0)
    assert row[9] == 7.71
    makespans = makespans_table(results()).rows[0]
    assert makespans[1:3] == (54.0, 53.0)
    assert makespans[3] == makespans[4] == pytest.approx(100 / 54)
    assert makespans[6:9] == ("5,000", "5,000", "20,144")
    assert len(solvers_table(results()).rows) == 4 * len(SOLVERS)
    assert searches_table(results()).rows[3][1] == pytest.approx(0.0)
    assert len(drawn_lines(behind_svg(results(), SEARCHES))) == 16
    assert drawn_lines(searches_svg(results(), SEARCHES)) == {
        f"panel-{panel}-{search}" for panel in (1, 2, 3, 4) for search in SEARCHES
    }
    row = efficiency_table(results()).rows[1]
    assert row == ("air summer", "0.0200", "0.0031", "0.0000000", "-0.0000003", "0.0000000", "0.0000005", "0.0000000")
    assert searches_table(results()).rows[0][-4:] == ("13 of 26",) * 4
    gaps = gaps_table(results())
    assert len(gaps.rows) == DAYS
    assert gaps.rows[DAYS - 1] == (str(DAYS), *(1.0,) * (len(SEARCHES) + 1))
    result = next(iter(results().values()))
    assert READ({**vars(result), "profit": list(result.profit), "gap": list(result.gap)}) == result
