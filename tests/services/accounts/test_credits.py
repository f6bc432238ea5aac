"""What a tier is paid: only for what the agent has really moved into cheaper hours."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_site import NOW_S, RULES, Site, a_job, prices

from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobMark, JobUse, Price
from offpeak.model.flexibility import Tier
from offpeak.model.time_range import TimeRange
from offpeak.plugin.queue_hook.facts import WaitAllowance
from offpeak.plugin.queue_hook.start_times import shift_mark
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.services.accounts.credits import CreditRates, credits_by_account, make_credits
from offpeak.services.accounts.job_bills import BillQuery, bills_json, job_bills, parse_bills

HOUR_S = 3600
PER_KWH, SHARE = CreditRates(per_kwh=0.02), CreditRates(share=0.5)
BOTH_DAYS = TimeRange(NOW_S - 48.0 * HOUR_S, NOW_S + 48.0 * HOUR_S)
# Six hours of 300, then 100.
CURVE = prices(*[300.0] * 6, *[100.0] * 40, from_s=NOW_S)


def run(start_s: float, hours: float = 1.0, **others: Any) -> JobUse:
    """Return a job of 2 kWh."""
    end_s = start_s + hours * HOUR_S
    columns = ("1", start_s, end_s, "ann", "physics", "batch", "n1", 7.2e6, 0.2, "EUR")
    return replace(JobUse(*columns, submitted_unix_s=float(NOW_S - HOUR_S)), **others)


def marks_of(job: Job, *, wait_s: int = 0, now_s: int = NOW_S) -> tuple[JobMark, ...]:
    """Return what the hook remembers of the job when it plans it now."""
    allowances = {"1": WaitAllowance(wait_s)}
    plan = Site((job,)).plan(RULES, now_s=now_s, prices=CURVE, wait_allowances=allowances, expected_run_s={"1": HOUR_S})
    return plan.remember


def paid(ledger: Ledger, use: JobUse, marks: tuple[JobMark, ...], rates: CreditRates = PER_KWH) -> float | None:
    """Return the credit of the run, None if it moved nothing."""
    ledger.write_prices(
        [
            Price(NOW_S - 48.0 * HOUR_S, NOW_S + 6.0 * HOUR_S, 300.0, "EUR", "x"),
            Price(NOW_S + 6.0 * HOUR_S, NOW_S + 46.0 * HOUR_S, 100.0, "EUR", "x"),
        ]
    )
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        found = make_credits(connection, [use], marks, arrays={}, rates=rates)
    return found[0].credit if found else None


T2 = "offpeak:delay=2d"


def test_a_job_that_the_agent_moves_is_paid_by_kwh_or_by_what_it_saved(ledger: Ledger) -> None:
    marks = marks_of(a_job(1, comment=T2))
    assert [mark.kind for mark in marks] == ["begin", "shift T2"]
    moved = run(NOW_S + 6.0 * HOUR_S)
    assert paid(ledger, moved, marks) == pytest.approx(2 * 0.02)
    assert paid(ledger, moved, marks, SHARE) == pytest.approx(0.5 * 2 * (0.3 - 0.1))
    assert paid(ledger, moved, marks, CreditRates()) is None


def test_a_tier_on_a_job_that_would_run_in_the_cheap_hour_anyway_earns_nothing(ledger: Ledger) -> None:
    # It is submitted in the cheap hours: the agent delays nothing.
    assert marks_of(a_job(1, comment=T2), now_s=NOW_S + 7 * HOUR_S) == ()
    # It is submitted before, but the queue would have kept it until then.
    marks = marks_of(a_job(1, comment=T2), wait_s=6 * HOUR_S)
    assert paid(ledger, run(NOW_S + 6.0 * HOUR_S), marks) is None
    assert paid(ledger, run(NOW_S + 6.5 * HOUR_S), marks) == 0.0


def test_a_begin_time_by_the_owner_or_no_hint_earns_nothing() -> None:
    assert marks_of(a_job(1, comment=T2, begin_s=NOW_S + 6 * HOUR_S)) == ()
    assert marks_of(a_job(1)) == ()
    assert marks_of(a_job(1, comment=f"{T2},offpeak:now")) == ()


def test_a_padded_time_limit_earns_nothing_more(ledger: Ledger) -> None:
    use = run(NOW_S + 6.0 * HOUR_S)
    tight, padded = (marks_of(a_job(1, comment=T2, limit_s=hours * HOUR_S)) for hours in (1, 20))
    assert paid(ledger, replace(use, limit_s=20.0 * HOUR_S), padded) == paid(ledger, use, tight)
    # A run of ten hours that is moved by one has moved a tenth of its energy.
    long = run(NOW_S + 1.0 * HOUR_S, 10.0)
    assert paid(ledger, long, tight) == pytest.approx(2 * 0.02 / 10)


def test_a_job_that_is_cancelled_before_it_runs_earns_nothing(ledger: Ledger) -> None:
    marks = marks_of(a_job(1, comment=T2))
    assert paid(ledger, run(NOW_S + 6.0 * HOUR_S, 0.0, energy_j=0.0), marks) is None
    # The number is given to another job.
    assert paid(ledger, run(NOW_S + 6.0 * HOUR_S, submitted_unix_s=float(NOW_S)), marks) is None


def test_a_job_that_ends_up_in_a_dearer_hour_costs_its_account_nothing(ledger: Ledger) -> None:
    mark = shift_mark(a_job(1), Tier.T2, baseline_s=NOW_S + 7 * HOUR_S, begin_s=NOW_S + 8 * HOUR_S, now_s=NOW_S)
    earlier = replace(mark, was=NOW_S - 10 * HOUR_S)
    assert paid(ledger, run(NOW_S + 8.0 * HOUR_S), (mark,)) == 0.0
    assert paid(ledger, run(NOW_S + 2.0 * HOUR_S), (earlier,), SHARE) == 0.0
    assert paid(ledger, run(NOW_S + 60.0 * HOUR_S), (mark,)) is None


def test_a_requeued_job_is_paid_for_the_run_after_it_only(ledger: Ledger) -> None:
    job = a_job(1)
    first = shift_mark(job, Tier.T2, baseline_s=NOW_S - HOUR_S, begin_s=NOW_S, now_s=NOW_S)
    second = shift_mark(job, Tier.T3, baseline_s=NOW_S + 2 * HOUR_S, begin_s=NOW_S + 6 * HOUR_S, now_s=NOW_S)
    assert paid(ledger, run(NOW_S + 0.0, 2.0), (first, second)) == 0.0
    assert paid(ledger, run(NOW_S + 6.0 * HOUR_S), (first, second), SHARE) == pytest.approx(0.5 * 2 * 0.2)


def test_the_mark_of_a_shift_outlives_the_end_of_its_job() -> None:
    mark = shift_mark(a_job(1), Tier.T2, baseline_s=NOW_S, begin_s=NOW_S + HOUR_S, now_s=NOW_S)
    begin = replace(mark, kind="begin")
    ended = Site((a_job(1, state=JobState.ENDED),), marks=(mark, begin))
    assert ended.plan().forget == (begin,)
    gone = Site((), marks=(mark,))
    assert gone.plan(now_s=NOW_S + 6 * 24 * HOUR_S).forget == ()
    assert gone.plan(now_s=NOW_S + 8 * 24 * HOUR_S).forget == (mark,)


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"], indirect=True)
def test_users_see_what_their_tiers_brought_and_accounts_are_summed(ledger: Ledger) -> None:
    marks, use = marks_of(a_job(1, comment=T2)), run(NOW_S + 6.0 * HOUR_S)
    assert paid(ledger, use, marks, SHARE) == pytest.approx(0.2)
    ledger.write_jobs([use, run(NOW_S + 9.0 * HOUR_S, job="2")])
    with open_ledger(ledger.settings.url) as connection:
        ledger.write_credits(make_credits(connection, [use], marks, arrays={}, rates=SHARE))
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        bills = job_bills(connection, BillQuery(BOTH_DAYS, "ann"))
        (row,) = credits_by_account(connection, BOTH_DAYS)
    assert {bill.job: (bill.tier, bill.credit) for bill in bills} == {"1": ("T2", pytest.approx(0.2)), "2": ("", None)}
    assert parse_bills(bills_json(bills)) == bills
    assert (row["account"], row["tier"], row["jobs"], row["credit"]) == ("physics", "T2", 1, pytest.approx(0.2))
    assert row["shifted_j"] == pytest.approx(7.2e6)


@given(
    shifted_j=st.floats(0, 1e12),
    saved=st.none() | st.floats(-1e6, 1e6),
    per_kwh=st.none() | st.floats(0, 10),
    share=st.none() | st.floats(0, 1),
)
def test_a_credit_is_never_negative_and_never_paid_without_a_saving(
    shifted_j: float, saved: float | None, per_kwh: float | None, share: float | None
) -> None:
    credit = CreditRates(per_kwh, share).credit(shifted_j, saved)
    assert credit is None or credit >= 0
    assert credit in (None, 0.0) or (saved or 0) > 0
