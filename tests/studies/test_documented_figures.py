"""Figures on the pages of studies are what the present code gives: a part of each stored table is computed again.

An experiment runs when a row needs its result, so a row costs its own experiments only. The rows are those of the
smallest logs and of the quickest cases; all others come from the same functions.
"""

import gzip
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import study_tables

from offpeak.predictors.scores import Score
from offpeak.report_tables import TableCell, cell_text
from offpeak.ui.forecast.price_scores import PriceTask, read_price_file, run_price_task
from offpeak_studies.day_ahead import inputs, nordugrid, nordugrid_study
from offpeak_studies.day_ahead import run as xsede_run
from offpeak_studies.day_ahead import tables as xsede
from offpeak_studies.dynamic_pricing import plan as pricing_plan
from offpeak_studies.dynamic_pricing import study as pricing
from offpeak_studies.dynamic_pricing import tables as pricing_tables
from offpeak_studies.dynamic_pricing.run import run as run_pricing
from offpeak_studies.energy_carbon import federation_study, single_site
from offpeak_studies.energy_carbon.federation import run as run_federation
from offpeak_studies.energy_carbon.paper import TESTBEDS
from offpeak_studies.energy_carbon.run import run as run_single_site
from offpeak_studies.harness import Replays
from offpeak_studies.logs import LogSource, StudyLog, read_log
from offpeak_studies.online_simulation import plan as online_plan
from offpeak_studies.online_simulation import tables as online
from offpeak_studies.online_simulation.run import run as run_online
from offpeak_studies.price_capacity import study as capacity
from offpeak_studies.price_capacity.run import START, aligned_on, run_at_prices
from offpeak_studies.sleeping import study as sleeping
from offpeak_studies.sleeping.run import run as run_sleeping

TEN = Replays(10, seed=1)
TWENTY = Replays(20, seed=1)
Row = Sequence[TableCell]


class Computed(dict[Any, Any]):
    """Results by experiment, each computed when it is first needed."""

    def __init__(self, run: Callable[[Any], Any]) -> None:
        super().__init__()
        self.run = run

    def __contains__(self, experiment: object) -> bool:
        """Every result can be had."""
        return True

    def __missing__(self, experiment: Any) -> Any:
        self[experiment] = result = self.run(experiment)
        return result


def read(shared: Path, name: str) -> StudyLog:
    return read_log(LogSource(name.removesuffix("_first10000"), shared / "data/traces" / f"{name}.swf.gz"))


def on(run: Callable[[Any, StudyLog], Any], log: StudyLog) -> Computed:
    return Computed(lambda experiment: run(experiment, log))


def assert_stored(name: str, rows: Iterable[Row]) -> None:
    """Each row stands in the stored table."""
    texts = [[cell_text(cell) for cell in row] for row in rows]
    assert texts
    table = study_tables.stored(name)[1:]
    assert [row for row in texts if row not in table] == [], name


@pytest.fixture(scope="module")
def kth(shared: Path) -> StudyLog:
    return read(shared, "KTH-SP2")


def test_sleeping(kth: StudyLog) -> None:
    results = sleeping.SleepingResults(on(run_sleeping, kth), TEN)
    policies = ("always-on", "forecast:1h", "two-level")
    assert_stored("sleeping/policies", [sleeping._policy_row(results, "KTH-SP2", policy) for policy in policies])
    cells = sleeping._equal_cells(results, "KTH-SP2", sleeping.FORECAST)
    assert_stored("sleeping/equal-energy", [("KTH-SP2", "80", sleeping.FORECAST, *cells)])


def test_what_an_order_saves_on_every_log(kth: StudyLog) -> None:
    (subject,) = pricing_plan.subjects_of([kth])
    results = pricing.PricingResults(on(run_pricing, kth), TEN)
    assert_stored("dynamic-pricing/logs", pricing.logs_table(results, [subject]).rows)


@pytest.fixture(scope="module")
def intrepid(shared: Path) -> tuple[pricing.PricingResults, pricing_plan.PricingSubject]:
    log = read(shared, "ANL-Intrepid_first10000")
    (subject,) = pricing_plan.paper_subjects([log])
    return pricing.PricingResults(on(run_pricing, log), TEN), subject


def test_tables_of_the_slides(intrepid: tuple[pricing.PricingResults, pricing_plan.PricingSubject]) -> None:
    results, subject = intrepid
    assert_stored("dynamic-pricing/paper", pricing.paper_table(results, [subject]).rows)
    assert_stored("dynamic-pricing/implied", pricing.implied_table().rows)
    assert_stored("dynamic-pricing/frequency", [pricing_tables._frequency_row(results, subject, 30)])
    assert_stored("dynamic-pricing/letter", [pricing_tables._letter_row(results, subject, "24 h")])


def test_assumptions_alone_and_one_after_the_other(
    intrepid: tuple[pricing.PricingResults, pricing_plan.PricingSubject],
) -> None:
    results, subject = intrepid
    stored = {(row[0], row[1]): row[4:] for row in study_tables.stored("dynamic-pricing/alone")[1:]}
    for change in (pricing_plan.TWO_KINDS, pricing_plan.HALF_DAY):
        greedy, greedy_more, knapsack, knapsack_more = pricing_tables._saved(
            results, subject, change.of(subject.base), subject.base
        )
        cells = [
            f"{one.mean:z.2f} ({more.mean:+z.2f})" for one, more in ((greedy, greedy_more), (knapsack, knapsack_more))
        ]
        assert [cell.replace("*", "") for cell in stored[change.what, change.how]] == cells
    assert_stored("dynamic-pricing/ladder2", pricing.ladder_table(results, subject, 2).rows)


@pytest.mark.nightly
def test_months(shared: Path) -> None:
    log = read(shared, "theta_2022")
    results = pricing.PricingResults(on(run_pricing, log), TEN)
    subjects = pricing_plan.mira_subjects([log])
    rows = pricing_tables.month_ranges_table(results, subjects).rows
    assert_stored("dynamic-pricing/month-ranges", [row for row in rows if row[0] == log.source.name])


@pytest.fixture(scope="module")
def online_kth(kth: StudyLog) -> tuple[online.OnlineResults, online_plan.OnlineSubject]:
    (subject,) = online_plan.subjects_of([kth])
    return online.OnlineResults(on(run_online, kth), TWENTY), subject


def test_tables_of_online_simulation(
    online_kth: tuple[online.OnlineResults, online_plan.OnlineSubject],
) -> None:
    results, subject = online_kth
    assert_stored("online-simulation/logs", online.logs_table([subject]).rows)
    assert_stored("online-simulation/policies", online.policies_table(results, [subject]).rows)
    weekly = online.measured(results, subject, subject.setup("ols:7d"))
    assert_stored("online-simulation/periods", [(subject.name, "7d", *weekly)])
    assert_stored("online-simulation/knowledge", [online._knowledge_row(results, subject, online.KNOWLEDGE[-1])])
    rows = [row for row in online.readings_table(results, [subject]).rows if not str(row[1]).startswith("weeks")]
    assert_stored("online-simulation/readings", rows)
    server = online_plan.on_servers(subject)[0]
    assert_stored(
        "online-simulation/servers", [online._server_row(results, subject, subject.setup(server.capacity), server)]
    )


def test_sentences_of_online_simulation(online_kth: tuple[online.OnlineResults, online_plan.OnlineSubject]) -> None:
    results, subject = online_kth
    headers, *rows = study_tables.stored("online-simulation/claims")
    at = headers.index("KTH-SP2")
    stored = {row[0]: row[at] for row in rows}
    for claim in online.CLAIMS:
        text = cell_text(claim.measure(results, subject)) if claim.about(subject) else ""
        assert stored[claim.text] == text


@pytest.mark.nightly
def test_fewer_nodes_in_expensive_hours(shared: Path, tmp_path: Path) -> None:
    """The log is the archive's cleaned one, which the page calls KTH-SP2, at the German prices of 2023."""
    log = read(shared, "KTH-SP2-1996-2.1-cln")
    prices = tmp_path / "2023_eur_per_mwh.csv"
    with gzip.open(shared / "data/prices/price_DE-LU_2020-2024_eur_per_mwh.csv.gz", "rt") as file:
        prices.write_text("".join(line for line in file if line.startswith(("utc", "2023"))))
    aligned = {log.source.name: aligned_on(log, prices)}
    results = capacity.CapacityResults(on(partial(run_at_prices, prices=aligned), log), TEN)
    rows = [capacity._policy_row(results, log.source.name, policy) for policy in START.policies]
    assert_stored("price-capacity/policies", [("KTH-SP2", *row[1:]) for row in rows])
    cells = capacity._factor_cells(results, log.source.name, START)
    assert_stored("price-capacity/factors", [("KTH-SP2", "starting point", "", *cells)])


@pytest.mark.nightly
def test_testbeds_of_the_paper() -> None:
    results = single_site.SingleSiteResults(Computed(run_single_site), TWENTY)
    stored = {tuple(row[:3]): row[3:] for row in study_tables.stored("single-site/testbeds")[1:]}
    for name, testbed in TESTBEDS.items():
        case = single_site.cells(testbed)[0]
        way, load, saved, paper, _, power, paper_power, elapsed, paper_elapsed, _ = single_site._saved_row(
            results, testbed, case
        )
        found = stored[name.capitalize(), way, load]
        ours = [cell_text(cell) for cell in (saved, power, elapsed)]
        assert [found[0], found[2], found[4]] == ours
        assert [float(found[at].replace("*", "")) for at in (1, 3, 5)] == pytest.approx(
            [paper, paper_power, paper_elapsed], abs=0.05
        )


def test_six_schedulers_on_one_cluster() -> None:
    results = single_site.SingleSiteResults(Computed(run_single_site), TWENTY)
    servers, load = single_site.SERVERS[0], single_site.LOADS[0]
    _, _, *saved = single_site._cluster_saved_row(results, servers, load)[:5]
    stored = study_tables.stored("single-site/clusters")[1]
    assert stored[2:5] == [cell_text(cell) for cell in saved]
    waits = single_site._wait_row(results, servers, load)[2:]
    shown = [cell for at, cell in enumerate(waits) if at % 3 < 2]
    assert study_tables.stored("single-site/waits")[1][2:] == [cell_text(cell) for cell in shown]


@pytest.mark.nightly
def test_changed_assumptions_of_the_testbed() -> None:
    results = single_site.SingleSiteResults(Computed(run_single_site), TWENTY)
    change = single_site.CHANGES["dune"][0]
    row = single_site._change_row(results, TESTBEDS["dune"], change)
    loads = len(single_site.loads_of(TESTBEDS["dune"]))
    shown = [cell_text(cell) for cell in (*row[1 : 1 + loads], row[-1])]
    assert shown in [stored[1:] for stored in study_tables.stored("single-site/assumptions")[1:]]


@pytest.mark.nightly
def test_three_clusters() -> None:
    results = federation_study.FederationResults(Computed(run_federation), TEN)
    assert_stored("federation/table-ix", [federation_study._bench_row(results, "FP")])
    waits = federation_study._times(results, "FIFO", 1.2)
    assert_stored("federation/waits", [("120 %", "FIFO", *waits)])
    stored = study_tables.stored("federation/energy")
    (found,) = (row for row in stored if row[:2] == ["120 %", "FIFO"])
    base, fastest = (federation_study.choice("FIFO", selection, asleep=False, load=1.2) for selection in ("RR", "FP"))
    saved = [results.saved_pct(fastest, base, figure) for figure in (federation_study.energy, federation_study.co2)]
    assert found[2] == cell_text(saved[0])
    (found,) = (row for row in study_tables.stored("federation/co2") if row[:2] == ["120 %", "FIFO"])
    assert found[2] == cell_text(saved[1])
    assert_stored("federation/limits", [federation_study._limit_row(results, (1.2, "FIFO", 10))])


def write_zero_forecasts(places: Iterable[inputs.PricePlace]) -> None:
    for place in places:
        np.save(place.kept, np.zeros((len(inputs.daily_prices(place.prices)), 4, 24)))


def test_xsede_without_a_broker(shared: Path, tmp_path: Path) -> None:
    """Its jobs stay at home, whatever the forecasts are; with a broker a replay takes minutes."""
    folder = shared / "data/xsede_2014"
    write_zero_forecasts(inputs.places(folder, tmp_path).values())
    sites = tuple(row.name for row in inputs.site_rows(folder))
    results = xsede.DayAheadResults(Computed(partial(xsede_run.run, folder=folder, out=tmp_path)), TEN, sites)
    row = xsede._row(results, xsede.BASELINE, xsede.BASELINE, xsede.TABLE_4)
    assert_stored("xsede/strategies", [("baseline", *row)])


def test_nordugrid_without_a_broker(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data/xsede_2014"
    write_zero_forecasts(nordugrid.places(folder, tmp_path).values())
    results = Computed(partial(nordugrid.run, folder=folder, out=tmp_path))
    strategy = nordugrid_study.STRATEGIES["baseline"]
    home = [results[experiment] for experiment in nordugrid_study.experiments(strategy, Replays(3, seed=1))]
    assert_stored("nordugrid/strategies", nordugrid_study.table_of({"baseline": home}).rows)


def price_score(path: Path, predictor: str) -> Score:
    score = run_price_task(PriceTask(read_price_file(path), predictor)).score
    assert score is not None
    return score


def test_price_forecasts_of_a_place(shared: Path) -> None:
    stored = {tuple(row[:2]): row[2:6] for row in study_tables.stored("prices/places")[1:]}
    for shown, predictor in (("yesterday", "yesterday"), ("blend", "blend"), ("**ensemble**", "ensemble")):
        score = price_score(shared / "data/xsede_2014/XSEDE/Texas.csv", predictor)
        cells = [*map(cell_text, (score.mae, score.rmse, score.percentage_error)), f"{score.relative_mae:.3f}"]
        assert [cell.strip("*") for cell in stored["Texas", shown]] == cells


@pytest.mark.nightly
def test_price_forecasts_of_a_market(shared: Path) -> None:
    """Without inputs, because the file of the inputs is not here."""
    path = shared / "data/prices/epf/NP_2y_price_and_published_forecasts.csv.gz"
    score, published = (price_score(path, predictor) for predictor in ("ensemble", "published dnn_ensemble"))
    relative = f"{score.relative_mae:.3f}"
    cells = [*map(cell_text, (score.mae, score.rmse, score.percentage_error)), f"**{relative}**"]
    assert ["NP", "**ensemble**", *cells] in [row[:6] for row in study_tables.stored("prices/scores")]
    assert column_of("prices/inputs", "NP")["measured"] == relative
    assert column_of("prices/days", "NP")["1 day ahead"] == relative
    others = column_of("prices/intervals", "NP")["published, DNN / LEAR"]
    assert others.split(" / ")[0] == f"{published.relative_mae:.3f}"


def column_of(name: str, header: str) -> dict[str, str]:
    headers, *rows = study_tables.stored(name)
    return {row[0]: row[headers.index(header)] for row in rows}


def test_replays_wait_less_than_the_machines_did(shared: Path) -> None:
    replayed_h = {row["log"]: float(row["wait EASY"]) for row in records("dynamic-pricing/logs")}
    files = {
        "ANL-Intrepid": "ANL-Intrepid_first10000",
        "KTH-SP2-1996-2.1-cln": "KTH-SP2-1996-2.1-cln",
        "SDSC-SP2_first5000": "SDSC-SP2_first5000",
        "theta_2022": "theta_2022",
    }
    shares = [
        round(100 * replayed_h[log] / recorded_wait_h(shared / "data/traces" / f"{file}.swf.gz"))
        for log, file in files.items()
    ]
    intrepid, kth, sdsc, theta = shares
    page = " ".join((study_tables.DOCS / "science/trust.md").read_text(encoding="utf-8").split())
    assert (
        f"the mean wait under EASY is {intrepid} % (ANL-Intrepid), 20 % (Gaia), {kth} % (KTH-SP2-1996), {sdsc} % "
        f"(SDSC-SP2's first 5,000) and {theta} % (Theta 2022) of the recorded one"
    ) in page


def recorded_wait_h(log: Path) -> float:
    """Return the mean wait of the jobs of a log in the Standard Workload Format, whose third field is the wait [s]."""
    with gzip.open(log, "rt", encoding="utf-8") as file:
        waits_s = [float(line.split()[2]) for line in file if not line.startswith(";")]
    return float(np.mean([wait_s for wait_s in waits_s if wait_s >= 0])) / 3600


def records(name: str) -> list[dict[str, str]]:
    headers, *rows = study_tables.stored(name)
    return [dict(zip(headers, row, strict=True)) for row in rows]
