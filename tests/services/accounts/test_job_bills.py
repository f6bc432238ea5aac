"""The bills of ended jobs: what a job would have cost at its submission, and what is not known."""

from dataclasses import replace
from datetime import UTC

import pytest

from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord, JobCredit, JobGpus, JobUse, Price
from offpeak.model.time_range import TimeRange
from offpeak.power.meters.port import MeterResult, Reading
from offpeak.services.accounts.job_bills import BillQuery, JobBill, bills_json, job_bills, parse_bills
from offpeak.services.accounts.metering import MeteredSite, Metering, check_readings
from offpeak.ui.agent.bills import COLUMNS, bill_lines, bills_table, sum_text

HOUR_S = 3600.0
DAY = TimeRange(0.0, 24 * HOUR_S)


def use(job: str, submitted_h: float | None, started_h: float, user: str = "ann") -> JobUse:
    """Return a job of an hour and of 1 kWh, charged at 0.1 EUR."""
    start_s = started_h * HOUR_S
    return JobUse(
        *(job, start_s, start_s + HOUR_S, user, "physics", "batch", "n1", 3.6e6, 0.1, "EUR"),
        submitted_unix_s=None if submitted_h is None else submitted_h * HOUR_S,
    )


def bills(
    ledger: Ledger, *uses: JobUse, query: BillQuery | None = None, carbon: float | None = None
) -> dict[str, JobBill]:
    ledger.write_jobs(uses)
    # 300 EUR/MWh until noon, 100 until 18:00, then no price; `carbon` [g/kWh] is known until 14:00.
    hours = [(0, 12, 300.0, carbon), (12, 14, 100.0, carbon), (14, 18, 100.0, None)]
    ledger.write_prices(
        [Price(begin * HOUR_S, end * HOUR_S, price, "EUR", "x", grams) for begin, end, price, grams in hours]
    )
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        return {bill.job: bill for bill in job_bills(connection, query or BillQuery(DAY))}


def test_a_job_that_waited_for_a_low_price_cost_less(ledger: Ledger) -> None:
    found = bills(ledger, use("1", 10, 13), use("2", 13, 14), use("3", 13, 10), use("4", 11.5, 13))
    assert {job: bill.saved for job, bill in found.items()} == {
        "1": pytest.approx(0.2),
        "2": pytest.approx(0.0),
        "3": pytest.approx(-0.2),
        "4": pytest.approx(0.1),
    }
    assert found["1"].at_submission_cost == pytest.approx(0.3)


def test_what_is_not_known_has_no_figure(ledger: Ledger) -> None:
    found = bills(ledger, use("old", None, 13), use("unpriced", 17.5, 18), use("half", 12, 17.5))
    assert {bill.saved for bill in found.values()} == {None}


def test_unknown_co2_has_its_reason(ledger: Ledger) -> None:
    booked = replace(use("booked", 10, 13), carbon_g=400.0)
    nothing = replace(use("nothing", 10, 13), energy_j=None)
    later, half = use("later", 10, 13), use("half", 10, 13.5)
    found = bills(ledger, booked, nothing, later, half, carbon=400.0)
    assert {job: (bill.carbon_g, bill.carbon_why) for job, bill in found.items()} == {
        "booked": (400.0, ""),
        "nothing": (None, "no energy is known"),
        "later": (None, "the carbon intensity was not known at the booking"),
        "half": (None, "the ledger has a carbon intensity for less than 90 % of the time"),
    }


def test_a_month_in_two_currencies_has_its_jobs_without_differences(ledger: Ledger) -> None:
    ledger.write_prices([Price(18 * HOUR_S, 24 * HOUR_S, 100.0, "CHF", "x", 400.0)])
    later = replace(use("2", 19, 20), currency="CHF")
    found = bills(ledger, use("1", 10, 13), later)
    assert {job: (bill.cost, bill.saved) for job, bill in found.items()} == {"1": (0.1, None), "2": (0.1, None)}
    assert found["2"].carbon_why == "the carbon intensity was not known at the booking"
    assert sum_text(tuple(found.values())) == (
        "2 jobs: 2.00 kWh, not known, CO2 not known, not known less than at their submission; 2 jobs of unknown "
        "difference; costs are in CHF and EUR"
    )


def test_a_price_at_the_submission_in_another_currency_is_no_comparison(ledger: Ledger) -> None:
    """All jobs came before the change, and ran after it: each reading of the prices is in one currency."""
    ledger.write_prices([Price(18 * HOUR_S, 24 * HOUR_S, 100.0, "CHF", "x")])
    (bill,) = bills(ledger, use("1", 10, 19)).values()
    assert (bill.cost, bill.saved) == (0.1, None)


def test_a_job_that_did_not_run_says_so(ledger: Ledger) -> None:
    cancelled = replace(use("1", 10, 13), ended_unix_s=13 * HOUR_S, energy_j=0.0, cost=None)
    assert bills(ledger, cancelled)["1"].carbon_why == "it did not run for a second"


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"], indirect=True)
def test_users_see_their_jobs_and_arrays_are_found_by_their_number(ledger: Ledger) -> None:
    uses = [use(job, 10, 13) for job in ("7_1", "7_2", "77", "7.head", "8[1].head", "8%")]
    theirs = use("7_3", 10, 13, user="bob")
    assert set(bills(ledger, *uses, theirs, query=BillQuery(DAY, "ann", "7"))) == {"7_1", "7_2", "7.head"}
    assert set(bills(ledger, query=BillQuery(DAY, None, "8"))) == {"8[1].head"}
    assert set(bills(ledger, query=BillQuery(TimeRange(0.0, HOUR_S)))) == set()


def test_a_job_is_shown_how_long_its_gpus_were_idle_and_what_that_cost(ledger: Ledger) -> None:
    start_s = 13 * HOUR_S
    gpus = [
        JobGpus("1", start_s, start_s + HOUR_S, 4 * HOUR_S, 1.5 * HOUR_S, 2 * HOUR_S, 1.8e6, 0.05, "EUR"),
        JobGpus("2", start_s, start_s + HOUR_S, 4 * HOUR_S, 0.0, 0.0, 0.0, None, "EUR"),
        JobGpus("3", start_s, start_s + HOUR_S, HOUR_S, HOUR_S, 0.0, 3.6e5, None, ""),
    ]
    ledger.write_job_gpus(gpus)
    found = bills(ledger, *(use(job, 10, 13) for job in ("1", "2", "3", "cpu")))
    lines = {job: [line for line in bill_lines(bill, UTC) if line.startswith("GPUs")] for job, bill in found.items()}
    assert lines == {
        "1": ["GPUs       idle 1.50 to 2.00 of 4.00 GPU-hours: 0.50 kWh, 0.05 EUR"],
        "2": ["GPUs       idle not known of 4.00 GPU-hours"],
        "3": ["GPUs       idle 1.00 of 1.00 GPU-hours: 0.10 kWh, not known"],
        "cpu": [],
    }
    rows = list(bills_table(tuple(found.values()), UTC).columns[-2].cells)
    assert sorted(rows) == ["", "1.00", "1.50 to 2.00", "not known"]
    without = bills_table([bill for bill in found.values() if bill.gpu_s is None], UTC)
    assert len(without.columns) == len(COLUMNS)


def test_bills_travel_as_json(ledger: Ledger) -> None:
    found = tuple(bills(ledger, use("1", 10, 13), use("old", None, 13)).values())
    assert parse_bills(bills_json(found)) == found
    with pytest.raises(ValueError, match="no bills"):
        parse_bills([{"job": "1"}])


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"], indirect=True)
def test_a_delayed_job_has_what_was_expected_and_what_came_of_it(ledger: Ledger) -> None:
    delays = [(10.0, {"expected_saving": 0.5}), (11.0, {"expected_saving": 0.4}), (12.0, {"begin_s": 1.0})]
    later = (13.5, {"expected_saving": 0.3})
    ledger.write_decisions(
        [DecisionRecord(h * HOUR_S, "job 1", "delayed", "", tuple(x.items())) for h, x in (*delays, later)]
    )
    run = (13 * HOUR_S, 14 * HOUR_S)
    ledger.write_credits([JobCredit(job, *run, 10 * HOUR_S, 3.6e6, "T1", 0.2, "EUR", None) for job in ("1", "2")])
    found = bills(ledger, use("1", 10, 13), use("2", 10, 13), use("3", 10, 13))
    both = {job: (bill.expected_saving, bill.tier_saved) for job, bill in found.items()}
    assert both == {"1": (0.4, 0.2), "2": (None, 0.2), "3": (None, None)}
    (line,) = [line for line in bill_lines(found["1"], UTC) if line.startswith("tier")]
    assert line == "tier       T1 moved 1.00 kWh by 3 h: 0.20 EUR less than at 1970-01-01 10:00, 0.40 EUR expected"


def test_a_gpu_may_draw_nothing_for_days_and_much_more_at_once() -> None:
    state, kept = Metering(), []
    for hour, power_w in enumerate([0.0] * 30 + [300.0]):
        gpu = Reading("n1", "gpu", "GPU 0 idle", power_w, hour * HOUR_S, node="n1")
        state, (result,), _ = check_readings(state, [MeterResult("n1", "ssh", (gpu,))], MeteredSite())
        kept += [reading.power_w for reading in result.readings]
    assert kept == [0.0] * 30 + [300.0]
    assert state.histories == {}


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize(("task", "array"), [("7_3", "7"), ("7[3].head", "7[].head")])
def test_a_task_has_its_part_of_what_was_expected_of_its_array(ledger: Ledger, task: str, array: str) -> None:
    other = task.replace("3", "4")
    for hour, job, saving, tasks in ((9, array, 9.0, None), (10, array, 0.8, 8.0), (11, other, 0.3, None)):
        inputs = (("expected_saving", saving), *((("tasks", tasks),) if tasks else ()))
        ledger.write_decisions([DecisionRecord(hour * HOUR_S, f"job {job}", "delayed", "", inputs)])
    runs = {task: 13, other: 13, task.replace("3", "5"): 9.5}
    credits = [
        JobCredit(job, h * HOUR_S, (h + 1) * HOUR_S, 0.0, 3.6e6, "T1", 0.2, "EUR", None) for job, h in runs.items()
    ]
    ledger.write_credits(credits)
    found = bills(ledger, *(use(job, 8, hour) for job, hour in runs.items()))
    # The last one started while only a decision of an older agent was known, which did not say of how many tasks.
    assert [found[job].expected_saving for job in runs] == [0.1, 0.3, None]
