"""Studies that take hours, in small: what their code gives is what it gave when the tables of their pages were stored.

A file in tests/golden/reduced has the tables of a small run and a digest of the stored tables that it vouches for. If
the code gives other figures, or someone edits a stored table, the test fails. `UPDATE_GOLDEN=1` writes the file again,
but not for other figures beside unchanged tables: then the study has to run first.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import study_tables

from offpeak.report_tables import StudyTable
from offpeak_studies.day_ahead import inputs, nordugrid, nordugrid_study
from offpeak_studies.day_ahead import run as xsede_run
from offpeak_studies.day_ahead import tables as xsede
from offpeak_studies.dynamic_pricing import plan as pricing_plan
from offpeak_studies.dynamic_pricing import run as pricing_run
from offpeak_studies.dynamic_pricing import tables as pricing_tables
from offpeak_studies.harness import Replays
from offpeak_studies.logs import LogSource, read_log
from offpeak_studies.profit_cooling import run as cooling
from offpeak_studies.profit_cooling import study as cooling_study
from offpeak_studies.report import markdown_table

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "reduced"
XSEDE: dict[str, Callable[[xsede.DayAheadResults], StudyTable]] = {
    "xsede/strategies": xsede.strategies_table,
    "xsede/weights": xsede.weights_table,
    "xsede/errors": xsede.errors_table,
    "xsede/estimates": xsede.estimates_table,
    "xsede/data": xsede.data_table,
    "xsede/powers": xsede.powers_table,
    "xsede/sizes": xsede.sizes_table,
    "xsede/sites": xsede.sites_table,
    "xsede/shares": xsede.shares_table,
    "xsede/most": xsede.most_table,
    "xsede/cycles": xsede.cycles_table,
}
COOLING = (
    "profit-cooling/gains",
    "profit-cooling/makespans",
    "profit-cooling/efficiency",
    "profit-cooling/searches",
    "profit-cooling/gaps",
    "profit-cooling/solvers",
    "profit-cooling/rules",
)
COUNTED, AT_HOME = 60, 2_500
NODES, DAYS, JOBS = 64, 1, 300
FIRST_JOBS = 3_000
ONE = Replays(1, seed=1)


def assert_as_stored(study: str, names: Iterable[str], tables: Iterable[StudyTable]) -> None:
    """The small run gives the stored figures, and the tables of the page are those that were stored with them."""
    files = [study_tables.FIGURES / f"{name}.csv" for name in names]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    figures = "\n".join(map(markdown_table, tables))
    golden = GOLDEN / f"{study}.md"
    if os.environ.get("UPDATE_GOLDEN"):
        before = golden.read_text(encoding="utf-8") if golden.exists() else ""
        unchanged = before.startswith(f"{digest}\n")
        assert not unchanged or before == f"{digest}\n\n{figures}", f"run the study {study} and store its tables first"
        golden.write_text(f"{digest}\n\n{figures}", encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == f"{digest}\n\n{figures}"


def write_known_prices(places: Iterable[inputs.PricePlace]) -> None:
    """Write forecasts that are exact, because those of SARIMA take minutes."""
    for place in places:
        days = inputs.daily_prices(place.prices)
        coming = np.stack([np.roll(days, -ahead, axis=0) for ahead in range(4)], axis=1)
        np.save(place.kept, coming)


@pytest.mark.nightly
def test_xsede(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data/xsede_2014"
    write_known_prices(inputs.places(folder, tmp_path).values())
    results = {
        experiment: xsede_run.run(replace(experiment, jobs=COUNTED, history=AT_HOME), folder, tmp_path)
        for experiment in xsede.planned(ONE)
    }
    sites = tuple(row.name for row in inputs.site_rows(folder))
    found = xsede.DayAheadResults(results, ONE, sites)
    assert_as_stored("xsede", XSEDE, [table(found) for table in XSEDE.values()])


def test_nordugrid(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data/xsede_2014"
    write_known_prices(nordugrid.places(folder, tmp_path).values())
    small = partial(nordugrid.run, folder=folder, out=tmp_path)
    by_strategy = {
        label: [
            small(replace(experiment, jobs=COUNTED, history=AT_HOME))
            for experiment in nordugrid_study.experiments(strategy, ONE)
        ]
        for label, strategy in nordugrid_study.STRATEGIES.items()
    }
    assert_as_stored("nordugrid", ["nordugrid/strategies"], [nordugrid_study.table_of(by_strategy)])


def test_profit_and_cooling(shared: Path) -> None:
    """The searches, which end by the clock, get no time: they keep the plans with which they begin."""
    jobs = cooling.curie_jobs(shared / "data/traces/CEA-curie.swf.gz", days=DAYS).take(np.arange(JOBS))
    small: Any = partial(cooling.run, jobs=jobs, nodes=NODES, days=DAYS)
    results = {
        (scenario, solver): replace(
            small(cooling.CoolingExperiment(scenario, solver, 0.0, 1)), seconds=1.0, search_s=1.0
        )
        for scenario in cooling.SCENARIOS
        for solver in cooling_study.SOLVERS
    }
    assert_as_stored("profit-cooling", COOLING, [table(results) for table in cooling_study.TABLES])


def test_assumptions_of_dynamic_pricing_one_after_the_other(shared: Path) -> None:
    log = read_log(LogSource("SDSC-BLUE", shared / "data/traces/SDSC-BLUE.swf.gz"))
    jobs = log.trace.jobs.take(np.arange(FIRST_JOBS))
    (subject,) = pricing_plan.paper_subjects([replace(log, trace=replace(log.trace, jobs=jobs))])
    variants = (subject.base, *(variant for _, variant in pricing_plan.ladder_of(subject)))
    results = {
        experiment: pricing_run.run(experiment, subject.log)
        for variant in variants
        for group in pricing_plan.experiments(variant, "SDSC-BLUE", subject.months, ONE)
        for experiment in group
    }
    found = pricing_tables.PricingResults(results, ONE)
    assert_as_stored("dynamic-pricing", ["dynamic-pricing/ladder1"], [pricing_tables.ladder_table(found, subject, 1)])
