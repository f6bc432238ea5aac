"""The account of savings: one sum for every reader, unknown stays unknown, and a later row of a day replaces it."""

from dataclasses import replace
from math import hypot

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobCredit, JobUse, MeterReading, NodeStateRecord, Price, SavingRecord
from offpeak.model.time_range import TimeRange
from offpeak.services.accounts.account_of_savings import (
    NO_SAVINGS,
    NOTHING,
    DelaySaving,
    account_of,
    delays_text,
    saving_text,
    shadow_text,
    sum_account,
    sum_delays,
)

DAY_S = 86_400.0
KWH = 3.6e6


def row(day: int = 0, **fields: object) -> dict[str, object]:
    """Return a row of a day that saved 2 kWh and 0.50 EUR, measured, within 0.1 EUR."""
    known = {
        **{"lever": "sleep", "is_shadow": False, "baseline": "all nodes on", "basis": "", "currency": "EUR"},
        **{"from_unix_s": day * DAY_S, "until_unix_s": (day + 1) * DAY_S, "baseline_energy_j": 5 * KWH},
        **{"energy_j": 3 * KWH, "baseline_cost": 1.5, "cost": 1.0, "low_cost": 0.4, "high_cost": 0.6},
        **{"saved_carbon_g": 800.0, "measured_share": 1.0, "node_hours": 10.0, "delayed_jobs": None, "delay_s": None},
        "as_of_unix_s": None,
    }
    assert fields.keys() <= known.keys()
    return known | fields


def order(day: int = 0, **fields: object) -> dict[str, object]:
    more = {"lever": "order", "baseline": "own order", "measured_share": 0.0, "node_hours": None}
    return row(day, **(more | {"delayed_jobs": 4, "delay_s": 60.0} | fields))


def test_days_of_a_lever_add_up_and_levers_too() -> None:
    orders = [order(0, high_cost=0.8), order(1, high_cost=0.9, delay_s=0.0)]
    account = sum_account([row(0), row(1), *orders], bill=8.0)
    assert [lever.lever for lever in account.levers] == ["order", "sleep"]
    assert (account.energy_j, account.cost, account.carbon_g, account.days) == (8 * KWH, 2.0, 3200.0, 2)
    assert account.share == 0.2
    by_order, by_sleep = account.levers
    assert (by_sleep.low, by_sleep.high) == (pytest.approx(0.8), pytest.approx(1.2)), "its error is the same each day"
    assert by_order.low == pytest.approx(1.0 - hypot(0.1, 0.1)), "chance differs from day to day"
    assert by_order.high == pytest.approx(1.0 + hypot(0.3, 0.4))
    assert account.low == pytest.approx(2.0 - hypot(0.2, hypot(0.1, 0.1)))
    assert (by_order.delayed_jobs, by_order.delay_s, account.known) == (8, 30.0, "partly measured")


def test_a_later_row_of_the_same_day_replaces_it() -> None:
    noon = row(0, until_unix_s=DAY_S / 2, baseline_energy_j=4 * KWH)
    assert sum_account([row(0), noon], None) == sum_account([row(0)], None)


def test_shadow_is_another_account() -> None:
    rows = [row(0), row(0, is_shadow=True, baseline_cost=3.0, baseline="as it was")]
    assert sum_account(rows, None).cost == 0.5
    shadow = sum_account(rows, 10.0, is_shadow=True)
    assert (shadow.cost, shadow.share) == (2.0, 0.2), "the bill of shadow mode is that of the baseline"
    assert shadow_text(shadow).startswith("would have saved 2.00 EUR")


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"], indirect=True)
def test_what_delays_saved_is_shown_and_in_no_sum(ledger: Ledger) -> None:
    run, moved = (100.0, 3700.0), (50.0, KWH, "T1")
    ledger.write_jobs([JobUse(job, *run, "ann", "", "", "n1", KWH, 0.1, "EUR") for job in ("1", "2", "3")])
    ledger.write_credits([JobCredit(job, *run, *moved, saved, "EUR", None) for job, saved in (("1", 0.1), ("2", None))])
    ledger.write_savings([SavingRecord(0.0, DAY_S, "all nodes on", 5 * KWH, 1.5, 3 * KWH, 1.0, "EUR", "")])
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        account = account_of(connection, TimeRange(0.0, DAY_S))
        shadow = account_of(connection, TimeRange(0.0, DAY_S), is_shadow=True)
        other_day = account_of(connection, TimeRange(DAY_S, 2 * DAY_S))
    assert (account.cost, account.delays) == (0.5, DelaySaving(2, 0.1, "EUR"))
    not_added = "not included: 0.10 EUR that 2 delayed jobs saved, as sleeping nodes count part of it"
    assert saving_text(account) == f"0.50 EUR; 2.00 kWh ({not_added})"
    assert (delays_text(shadow), delays_text(other_day)) == ("", "")
    assert saving_text(replace(NO_SAVINGS, delays=account.delays)) == f"{NOTHING}, {not_added}"
    in_two = [{"jobs": 1, "saved": 1.0, "currency": currency} for currency in ("EUR", "CHF")]
    text = delays_text(replace(NO_SAVINGS, delays=sum_delays(in_two)))
    assert text == "not included: what 2 delayed jobs saved, which is not known"


@pytest.mark.parametrize("unknown", ["cost", "baseline_cost"])
def test_what_has_no_price_is_left_out_and_named(unknown: str) -> None:
    account = sum_account([row(0), row(1, **{unknown: None})], bill=8.0)
    assert (account.cost, account.low) == (0.5, 0.4)
    text = "0.50 EUR (0.40 to 0.60), 5.9 % of the bill; 4.00 kWh (measured; without 1 day of sleeping nodes)"
    assert saving_text(account) == text
    nothing = sum_account([row(0, **{unknown: None})], bill=8.0)
    assert (nothing.cost, nothing.low, nothing.share) == (None, None, None)
    assert saving_text(nothing) == "2.00 kWh (measured; the price is not known)"
    lever = sum_account([row(0), order(0, **{unknown: None})], bill=8.0)
    assert lever.cost == 0.5
    assert saving_text(lever).endswith("(partly measured; without order of the queue, whose price is not known)")


def test_two_currencies_have_no_sum() -> None:
    assert sum_account([row(0), row(1, currency="USD")], None).cost is None


@pytest.mark.parametrize(("bound", "others"), [("low_cost", "high"), ("high_cost", "low")])
def test_a_bound_that_one_day_lacks_is_unknown(bound: str, others: str) -> None:
    account = sum_account([row(0), row(1, **{bound: None})], None)
    assert getattr(account, bound.removesuffix("_cost")) is None
    assert getattr(account, others) is not None


def test_nothing_is_not_zero() -> None:
    assert sum_account([], 5.0) == NO_SAVINGS
    assert saving_text(NO_SAVINGS) == NOTHING


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(0, 20)), min_size=1, max_size=20))
def test_the_sum_lies_within_its_range(days: list[tuple[float, float]]) -> None:
    rows = [
        order(at, baseline_cost=cost, cost=0.0, low_cost=cost - error, high_cost=cost + error)
        for at, (cost, error) in enumerate(days)
    ]
    account = sum_account(rows, None)
    assert account.cost == pytest.approx(sum(cost for cost, _ in days), abs=1e-9)
    assert account.low is not None
    assert account.high is not None
    assert account.cost is not None
    assert account.low <= account.cost <= account.high


def booked(ledger: Ledger, *, measured_s: float) -> None:
    """Book a saving of 0.50 EUR, and readings of a node that used 1 kWh an hour at 0.1 EUR."""
    ledger.write_savings([SavingRecord(0.0, DAY_S, "all nodes on", 5 * KWH, 1.5, 3 * KWH, 1.0, "EUR")])
    ledger.write_prices([Price(0.0, DAY_S, 100.0, "EUR", "x", 400.0)])
    ledger.write_readings(
        [MeterReading("n1", "dcmi", "total", at, at + 900, 1000.0, node="n1") for at in range(0, int(measured_s), 900)]
    )


def test_the_bill_is_that_of_the_meters(ledger: Ledger) -> None:
    booked(ledger, measured_s=DAY_S)
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        account = account_of(connection, TimeRange(0.0, DAY_S))
        assert account_of(connection, TimeRange(DAY_S, 2 * DAY_S)) == NO_SAVINGS
    assert account.bill == pytest.approx(2.4)
    assert account.share == pytest.approx(0.5 / 2.9)
    assert saving_text(account) == "0.50 EUR, 17.2 % of the bill; 2.00 kWh"


def test_meters_that_came_later_or_miss_nodes_leave_the_bill_unknown(ledger: Ledger) -> None:
    booked(ledger, measured_s=DAY_S)
    ledger.write_states([NodeStateRecord(node, 0.0, "on", "on", "offpeak") for node in ("n1", "n2")])
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        assert account_of(connection, TimeRange(0.0, DAY_S)).share is None, "half of the nodes have no meter"


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"], indirect=True)
def test_the_share_of_a_running_day_is_the_same_until_its_next_booking(ledger: Ledger) -> None:
    row = SavingRecord(0.0, DAY_S, "all nodes on", 5 * KWH, 1.5, 3 * KWH, 1.0, "EUR", as_of_unix_s=2040.0)
    accounts = []
    for measured_s in (2040, 2049, 2060, 4000):
        ledger.write_prices([Price(0.0, DAY_S, 100.0, "EUR", "x", 400.0)])
        ledger.write_readings(
            [MeterReading("n1", "dcmi", "total", at, at + 1, 1000.0, node="n1") for at in range(measured_s)]
        )
        ledger.write_savings([row])
        assert ledger.settle()
        with open_ledger(ledger.settings.url) as connection:
            accounts += [account_of(connection, TimeRange(0.0, measured_s))]
    assert accounts[0].bill == pytest.approx(0.1 * 2040 / 3600)
    assert [saving_text(account) for account in accounts[1:]] == [saving_text(accounts[0])] * 3


def test_the_bill_of_a_day_is_whole_whose_settings_changed_in_it(ledger: Ledger) -> None:
    booked(ledger, measured_s=DAY_S)
    row = SavingRecord(0.0, DAY_S, "own order", 5 * KWH, 1.5, 4.9 * KWH, 1.4, "EUR", lever="order", as_of_unix_s=3600.0)
    ledger.write_savings([row])
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        assert account_of(connection, TimeRange(0.0, DAY_S)).bill == pytest.approx(2.4)


def test_the_bill_of_active_days_is_without_those_of_shadow(ledger: Ledger) -> None:
    booked(ledger, measured_s=DAY_S)
    day = SavingRecord(-DAY_S, 0.0, "as it was", 5 * KWH, 1.5, 3 * KWH, 1.0, "EUR", is_shadow=True)
    ledger.write_savings([day])
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        both = account_of(connection, TimeRange(-DAY_S, DAY_S))
        assert both.share == account_of(connection, TimeRange(0.0, DAY_S)).share == pytest.approx(0.5 / 2.9)


def test_a_row_without_figures_is_unknown_and_not_zero() -> None:
    unknown = order(0, basis="not known, because of a plan", cost=None, baseline_energy_j=None, energy_j=None)
    account = sum_account([row(0), unknown], None)
    assert (account.energy_j, account.unknown, account.known) == (2 * KWH, ("order of the queue",), "measured")
    assert saving_text(account).endswith("(measured; without order of the queue, which is not known)")
    nothing = sum_account([unknown], None)
    assert (nothing.energy_j, nothing.cost) == (None, None)
    assert saving_text(nothing) == f"{NOTHING}, without order of the queue, which is not known"
    some = sum_account([order(0), order(1, cost=None, baseline_energy_j=None, energy_j=None)], None)
    assert (some.levers[0].days, some.levers[0].unpriced_days) == (1, 1)


def test_a_year_at_this_rate_counts_the_time_that_has_a_price() -> None:
    days = [row(0), row(1), row(2, as_of_unix_s=2.5 * DAY_S), order(1)]
    account = sum_account(days, None)
    assert (account.length_s, account.priced_s) == (2.5 * DAY_S, 2.5 * DAY_S)
    assert account.cost_per_year == pytest.approx(4 * 0.5 * 365.25 / 2.5)
    unpriced = sum_account([row(0), row(1, cost=None)], None)
    assert (unpriced.length_s, unpriced.priced_s) == (2 * DAY_S, DAY_S)
    assert unpriced.cost_per_year == pytest.approx(0.5 * 365.25)
    assert sum_account([row(0, as_of_unix_s=0.9 * DAY_S)], None).cost_per_year is None
    # The agent was away in the middle of the first day, and the second one goes on.
    parts = [order(0), order(0, from_unix_s=0.6 * DAY_S), row(1, as_of_unix_s=1.5 * DAY_S)]
    restarted = sum_account([row(0), *parts, order(1, from_unix_s=1.4 * DAY_S, as_of_unix_s=1.5 * DAY_S)], None)
    assert (restarted.days, restarted.levers[0].days, restarted.priced_s) == (2, 2, 1.5 * DAY_S)
    assert sum_account([row(0, cost=None)], None).cost_per_year is None
