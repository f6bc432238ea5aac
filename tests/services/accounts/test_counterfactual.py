"""The cost of the site's own order, for a month whose true cost the engine knows."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from month_site import BERLIN, MAY, MonthSite, booked, month_site

from offpeak.errors import BadTrace
from offpeak.ledger.database import open_ledger
from offpeak.model.time_range import TimeRange
from services.accounts.counterfactual import Counterfactual, replay_site_order
from services.accounts.month_account import MonthAccount, make_month_account
from sim_backend.comparison.replications import replay_each
from sim_backend.replay.policy import parse_policy

SPAN = TimeRange(*(day.timestamp() for day in MAY))


@pytest.fixture(scope="module")
def site() -> MonthSite:
    return month_site()


def account_of(site: MonthSite, folder: Path, *, ordered_days: int) -> MonthAccount:
    folder.mkdir(exist_ok=True)
    url = booked(site, folder / "ledger.sqlite", ordered_days=ordered_days)
    with open_ledger(url) as connection:
        return make_month_account(connection, SPAN, BERLIN, site.settings.prices)


def replayed(site: MonthSite, account: MonthAccount) -> Counterfactual:
    assert account.replay_inputs is not None
    easy, greedy = (parse_policy(name, site.settings.scheduling) for name in ("easy", "greedy"))
    blank = replace(site.trace, jobs=replace(site.trace.jobs, node_power_w=np.full(len(site.trace.jobs), np.nan)))
    return replay_site_order(blank, account.replay_inputs, site.settings, easy, greedy)


def test_a_known_saving_lies_in_the_range(site: MonthSite, tmp_path: Path) -> None:
    found = replayed(site, account_of(site, tmp_path, ordered_days=31))
    assert (found.site, found.ordering) == ("easy", "greedy")
    assert found.drawn == found.jobs == len(site.trace.jobs)
    assert found.saved.low <= site.true_saving <= found.saved.high
    assert len(found.logged) == 32
    assert found.saved_kg is not None
    assert found.saved_kg.mean == pytest.approx(0.0, abs=1e-6), "the same energy at a constant intensity"


def test_the_mean_is_that_of_a_comparison_of_both_policies(site: MonthSite, tmp_path: Path) -> None:
    found = replayed(site, account_of(site, tmp_path, ordered_days=31))
    greedy, easy = (parse_policy(name, site.settings.scheduling) for name in ("greedy", "easy"))
    outcomes = replay_each(site.case, (easy, greedy), range(20), seed=site.settings.power.seed)
    saved = [of_easy.cost - of_greedy.cost for of_easy, of_greedy in outcomes]
    assert found.saved.mean == pytest.approx(np.mean(saved), abs=0.01 * np.ptp(saved))


def test_corrected_cost_adds_up_to_the_saving(site: MonthSite, tmp_path: Path) -> None:
    found = replayed(site, account_of(site, tmp_path, ordered_days=31))
    assert (found.without - found.logged).sum() == pytest.approx(found.saved.mean)


def test_a_queue_that_nobody_ordered_saves_nothing(site: MonthSite, tmp_path: Path) -> None:
    found = replayed(site, account_of(site, tmp_path, ordered_days=0))
    assert (found.saved.low, found.saved.mean, found.saved.high) == (0.0, 0.0, 0.0)
    assert found.without.tolist() == found.logged.tolist()
    assert found.own_wait_s == found.without_wait_s
    ordered = replayed(site, account_of(site, tmp_path / "ordered", ordered_days=31))
    assert found.error_share > ordered.error_share, "it was in fact ordered: the replay's error tells"


def test_accounts_add_up_by_what_is_known(site: MonthSite, tmp_path: Path) -> None:
    account = account_of(site, tmp_path, ordered_days=31)
    jobs = site.trace.jobs
    energies_j = jobs.node_power_w * jobs.size * jobs.runtime_s
    assert [each.account for each in account.accounts] == ["project0", "project1", "project2"]
    assert sum(each.jobs for each in account.accounts) == len(jobs)
    for at, name in enumerate(("measured_j", "partly_j", "modelled_j")):
        total_j = sum(getattr(each, name) for each in account.accounts)
        assert total_j == pytest.approx(energies_j[np.arange(len(jobs)) % 3 == at].sum())
    assert (account.saved.days, account.saved.energy_j) == (2, pytest.approx(14 * 3.6e6))
    assert account.saved.cost == pytest.approx(1.4)
    assert account.saved.carbon_g == pytest.approx(14 * 380.0)
    assert account.saved.low is None, "the rows do not say how sure they are"
    assert {node.of[0]: node.energy_j for node in account.nodes} == {"n1": 2.4 * 3.6e6, "n2": 4.8 * 3.6e6}


def test_a_log_of_another_month_says_so(site: MonthSite, tmp_path: Path) -> None:
    account = account_of(site, tmp_path, ordered_days=0)
    late = replace(site.trace, unix_start_s=(site.trace.unix_start_s or 0) + 90 * 86_400)
    with pytest.raises(BadTrace, match="no job ran"):
        replayed(replace(site, trace=late), account)
    with pytest.raises(BadTrace, match="has no date"):
        replayed(replace(site, trace=replace(site.trace, unix_start_s=None)), account)
