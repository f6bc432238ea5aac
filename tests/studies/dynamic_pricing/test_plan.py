"""The plan: what is run, and what the paper's figures imply."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak_studies.dynamic_pricing.plan import (
    ANL_BGP,
    LADDER,
    POWER_RATIOS,
    PRICE_RATIOS,
    SDSC_BLUE,
    PricingChange,
    Variant,
    changes_alone,
    experiments,
    implied_on_peak_share,
    ladder_of,
    mira_ladder,
    mira_subjects,
    month_by_month,
    on_peak_hours,
    paper_subjects,
    planned,
    subjects_of,
)
from offpeak_studies.dynamic_pricing.run import PricingSetup
from offpeak_studies.harness import Replays
from offpeak_studies.logs import find_logs

pytestmark = pytest.mark.quick


def test_every_experiment_is_planned_once(folder: Path) -> None:
    logs, _ = find_logs(folder)
    plan = planned(subjects_of(logs), paper_subjects(logs), mira_subjects(logs), Replays(2, 5))
    assert len(plan) == len(set(plan))
    assert {experiment.replay for experiment in plan} == {0, 1}
    assert {experiment.seed for experiment in plan} == {5}
    assert [experiment.log for experiment in plan] == sorted(experiment.log for experiment in plan)


def test_the_papers_logs_are_known_by_their_names(folder: Path) -> None:
    logs, _ = find_logs(folder)
    (subject,) = paper_subjects(logs)
    assert subject.paper is not None
    assert (subject.name, subject.paper.name) == ("SDSC-BLUE", "SDSC-Blue")
    (folder / "SDSC-BLUE.swf").rename(folder / "other.swf")
    logs, _ = find_logs(folder)
    (subject,) = paper_subjects(logs)
    assert (subject.name, subject.paper) == ("other", None)


def test_an_idle_log_is_made_busy(folder: Path) -> None:
    (folder / "SDSC-BLUE.swf").rename(folder / "ANL-Intrepid-2009.swf")
    logs, _ = find_logs(folder)
    (subject,) = paper_subjects(logs)
    assert (subject.name, subject.base.setup.load) == ("ANL-Intrepid-2009 at 70% load", 0.7)
    assert not any(change.how == "70%" for change in changes_alone(subject))


def test_a_ladder_only_adds_and_ends_with_all_changes(folder: Path) -> None:
    logs, _ = find_logs(folder)
    (subject,) = paper_subjects(logs)
    long = replace(subject, months=3)
    rungs = ladder_of(long)
    assert tuple(change for change, _ in rungs) == LADDER
    for change, variant in rungs:
        assert change.of(variant) == variant
    short = replace(subject, months=1)
    assert not any(change.months_apart for change in changes_alone(short))
    assert len(ladder_of(short)) == len(LADDER) - 1


def test_months_apart_are_one_experiment_each() -> None:
    variant = Variant(PricingSetup(), months_apart=True)
    groups = experiments(variant, "log", 3, Replays(2, 1))
    assert [[experiment.setup.month for experiment in group] for group in groups] == [[0, 1, 2]] * 2
    both = PricingChange("", "", setup={"window": 5}).of(PricingChange("", "", bill={"idle_w": 0.0}).of(Variant()))
    assert (both.setup.window, both.bill.idle_w) == (5, 0.0)


def saving(price_ratio: float, moved: float, share: float) -> float:
    """What moving a share of the energy off-peak saves of a bill with that share on-peak."""
    before = price_ratio * share + 1 - share
    after = price_ratio * (share - moved) + 1 - share + moved
    return 100 * (before - after) / before


@given(st.floats(0.05, 0.95), st.floats(0.01, 0.9), st.sampled_from(PRICE_RATIOS[1:]))
def test_the_on_peak_share_is_found_again(share: float, moved_part: float, price_ratio: float) -> None:
    moved = moved_part * share
    times = saving(price_ratio, moved, share) / saving(PRICE_RATIOS[0], moved, share)
    assert implied_on_peak_share(price_ratio, times) == pytest.approx(share, abs=1e-6)


def test_the_papers_tables_and_hours() -> None:
    for paper in [ANL_BGP, SDSC_BLUE]:
        assert set(paper.savings) == {(ratio, policy) for ratio in POWER_RATIOS for policy in ("greedy", "knapsack")}
        assert set(paper.frequencies) == {10, 20, 30}
    assert on_peak_hours("09:00-23:00").sum() == 14
    assert [hour for hour, on in enumerate(on_peak_hours("21:00-02:00")) if on] == [0, 1, 21, 22, 23]


def test_a_machine_of_the_same_site_stands_for_mira_as_logged_and_busy(folder: Path) -> None:
    (folder / "SDSC-BLUE.swf").rename(folder / "theta_2022.swf")
    logs, _ = find_logs(folder)
    logged, busy = mira_subjects(logs)
    assert (logged.name, busy.name) == ("theta_2022", "theta_2022 at 90% load")
    assert not month_by_month(logged).months_apart
    apart = month_by_month(replace(logged, months=3))
    assert apart.months_apart
    last = mira_ladder(replace(logged, months=3))[-1][1]
    assert last.months_apart
    assert (last.setup.power, last.bill.metered, last.bill.idle_w) == ("two kinds", "at_start", 0.0)
