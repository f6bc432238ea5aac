"""The study as a whole, most of its results known from before."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from drawings import drawn_lines, drawn_marks
from price_folder import write_folder, write_forecasts

from offpeak.errors import BadInput
from offpeak.executor import LocalProcesses
from offpeak.report_tables import Report
from offpeak_studies.day_ahead.inputs import places
from offpeak_studies.day_ahead.run import HOURS, DayAheadResult
from offpeak_studies.day_ahead.study import RUN, day_ahead, digest_of
from offpeak_studies.day_ahead.tables import ALWAYS, FEW, cases, planned
from offpeak_studies.harness import JOURNAL, Replays, StudyOrder, result_key
from offpeak_studies.report import markdown

SITES, ERRORS, SIZES = 8, 7, 3
KNOWN = DayAheadResult(
    response_min=400.0,
    wait_min=20.0,
    bounded_slowdown=1.5,
    runtime_min=380.0,
    cost_usd=9000.0,
    cost_by_power=(7200.0, 9000.0, 10_800.0),
    wait_error_min=3.0,
    jobs=(10,) * SITES,
    utilization=(0.5,) * SITES,
    fairness=(1.2,) * SITES,
    fairness_local=(None,) * SITES,
    by_error_jobs=(10.0,) * ERRORS,
    by_error_min=(4000.0,) * ERRORS,
    by_size_jobs=(30.0,) * SIZES,
    by_size_min=(9000.0,) * SIZES,
    by_size_usd=(3000.0,) * SIZES,
    load_h=((1.0,) * HOURS,) * SITES,
    power_w=((1000.0,) * HOURS,) * SITES,
)


def report_of(tmp_path: Path, replays: int = 1) -> Report:
    folder = write_folder(tmp_path / "prices")
    out = write_forecasts(folder, tmp_path / "out")
    digest = digest_of(folder, [place.prices for place in places(folder, out).values()])
    lines = []
    for experiment in planned(Replays(replays, 1)):
        base = experiment.case.strategy == "baseline"
        result = replace(KNOWN, response_min=800.0, cost_usd=20_000.0) if base else KNOWN
        lines.append(
            json.dumps({"key": result_key(RUN, experiment, digest), "of": asdict(experiment), "result": asdict(result)})
        )
    (out / JOURNAL).write_text("\n".join(lines) + "\n")
    return day_ahead(
        StudyOrder(None, out, replays=replays, seed=1, executor=LocalProcesses(1), prices=folder),
        lambda _done, _total: None,
    )


def test_the_tables_are_whole_and_the_paper_stands_beside_ours(tmp_path: Path) -> None:
    report = report_of(tmp_path)
    tables = {table.name: table for table in report.tables}
    assert list(tables) == [
        "strategies",
        "weights",
        "errors",
        "estimates",
        "data",
        "powers",
        "sizes",
        "sites",
        "shares",
        "most",
        "cycles",
    ]
    assert all(len(row) == len(table.headers) for table in tables.values() for row in table.rows)
    mcmf = tables["strategies"].rows[1]
    assert mcmf[0] == "MCMF, w_t = 25 %"
    assert (mcmf[3].mean, mcmf[7].mean) == pytest.approx((50.0, 55.0))
    assert mcmf[4] == pytest.approx(24.6, abs=0.1)
    assert tables["sizes"].rows[0][1] == 30.0
    assert "| MCMF, w_t = 25 % | 400.00 | 477.50 | 50.00 |" in markdown(report)
    assert drawn_lines(report.figures["hours.svg"]) == {
        f"panel-{panel}-{name}" for panel in (1, 2, 3, 4) for name in ("baseline", "MCMF", "INST", "TWOPRICE")
    }
    marks = drawn_marks(report.figures["trade.svg"])
    assert marks == {"panel-1-MCMF-by-w_t": 5, "panel-1-INST": 1, "panel-1-TWOPRICE": 1, "panel-1-baseline": 1}


def test_claims_are_replayed_as_often_as_requested_and_the_rest_a_few_times(tmp_path: Path) -> None:
    order = planned(Replays(5, 1))
    assert len(order) == len(set(order))
    often = {experiment.case for experiment in order if experiment.replay == 4}
    assert often == set(ALWAYS)
    assert {experiment.case for experiment in order if experiment.replay < FEW} == set(cases())
    tables = {table.name: table for table in report_of(tmp_path, replays=5).tables}
    assert tables["strategies"].rows[1][3].mean == pytest.approx(50.0)
    assert tables["sites"].rows[0][1] == 1.2


def test_without_the_folder_the_error_names_it(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="day-ahead needs the prices of 2014") as caught:
        day_ahead(StudyOrder(None, tmp_path, 1, 1, LocalProcesses(1)), lambda _done, _total: None)
    assert "--prices" in caught.value.hint
