"""Cells of the stored tables, computed again from the logs where these are."""

from pathlib import Path

import pytest
import study_tables

from offpeak.report_tables import cell_text
from offpeak_studies.dynamic_pricing.plan import PricingSubject, Variant, experiments, mira_subjects, month_by_month
from offpeak_studies.dynamic_pricing.run import run
from offpeak_studies.dynamic_pricing.tables import GREEDY, KNAPSACK, PricingResults, month_of
from offpeak_studies.harness import Replays
from offpeak_studies.logs import LogSource, read_log

REPLAYS = Replays(10, 1)


@pytest.fixture(scope="module")
def theta(shared: Path) -> PricingSubject:
    log = read_log(LogSource("theta_2022", shared / "data" / "traces" / "theta_2022.swf.gz"))
    return mira_subjects((log,))[0]


def computed(subject: PricingSubject, variant: Variant) -> tuple[str, str]:
    groups = experiments(variant, subject.log.source.name, subject.months, REPLAYS)
    results = PricingResults({one: run(one, subject.log) for group in groups for one in group}, REPLAYS)
    greedy, knapsack = (cell_text(results.saved(subject, variant, policy)) for policy in (GREEDY, KNAPSACK))
    return greedy, knapsack


def stored(name: str, *row: str) -> tuple[str, str]:
    headers, *rows = study_tables.stored(name)
    (found,) = (each for each in rows if tuple(each[: len(row)]) == row)
    return found[headers.index("greedy")], found[headers.index("knapsack")]


def test_a_month(theta: PricingSubject) -> None:
    assert computed(theta, month_of(theta, 5)) == stored("dynamic-pricing/months", "theta_2022", "6")


def test_the_case_of_mira(theta: PricingSubject) -> None:
    assert computed(theta, month_by_month(theta)) == stored("dynamic-pricing/mira", "theta_2022", "starting point")
