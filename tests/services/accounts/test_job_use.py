"""The energy and cost of a job: measured by its share of its nodes, modelled without readings."""

from collections.abc import Sequence
from datetime import UTC
from itertools import pairwise

import pytest
from account_jobs import job
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offpeak.errors import BadLedger
from offpeak.ledger.database import open_ledger
from offpeak.ledger.job_costs import job_costs
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.node_energy import node_energy
from offpeak.ledger.rows import MeterReading, Price
from offpeak.model.constants import J_PER_MWH
from offpeak.model.time_range import TimeRange
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.services.accounts.booking import book_jobs
from offpeak.services.accounts.ended_jobs import EndedJob
from offpeak.services.accounts.job_draws import JobDraw
from offpeak.services.accounts.job_use import BookedJob

MINUTE_S, HOUR_S = 60, 3600
CPUS = {"n1": 8, "n2": 8}
BY_CLASS = JobDraw(250.0, "node class server")


def ran(number: str, start_s: int, end_s: int, hosts: str = "n1", **other: object) -> Job:
    nodes = 2 if hosts == "n[1-2]" else 1
    return job(number, JobState.ENDED, start_s=start_s, end_s=end_s, hosts=hosts, nodes=nodes, **other)


def measure(ledger: Ledger, node: str, from_s: int, until_s: int, power_w: float) -> None:
    steps = range(from_s, until_s, MINUTE_S)
    ledger.write_readings([MeterReading(node, "dcmi", "total", at, at + MINUTE_S, power_w, node=node) for at in steps])


def price(ledger: Ledger, from_s: int, until_s: int, per_mwh: float, currency: str = "EUR") -> None:
    steps = range(from_s, until_s, 900)
    ledger.write_prices([Price(at, at + 900, per_mwh, currency, "x", 400.0) for at in steps])


def book(ledger: Ledger, *jobs: Job, unseen: str = "") -> tuple[BookedJob, ...]:
    assert ledger.settle()
    ended = [EndedJob(each, each.end_s or 0, unseen) for each in jobs]
    return book_jobs(ledger.settings.url, ended, CPUS, {each.job_id: BY_CLASS for each in jobs})


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"], indirect=True)
def test_a_job_on_measured_nodes_pays_for_each_quarter_hour_at_its_price(ledger: Ledger) -> None:
    measure(ledger, "n1", 0, HOUR_S, 360.0)
    measure(ledger, "n2", 0, HOUR_S, 720.0)
    price(ledger, 0, 1800, 100.0)
    price(ledger, 1800, HOUR_S, 20.0)
    (done,) = book(ledger, ran("1", 900, 2700, "n[1-2]"))
    assert done.use.energy_j == pytest.approx(1080 * 1800)
    assert done.use.cost == pytest.approx(1080 * 900 * (100 + 20) / J_PER_MWH)
    assert done.use.carbon_g == pytest.approx(1080 * 1800 / 3.6e6 * 400)
    assert (done.use.currency, done.use.basis, done.measured) == ("EUR", "measured", 1.0)
    assert done.node_w == pytest.approx(540)
    assert (done.use.user, done.use.account, done.use.partition, done.use.nodes) == (
        "ann",
        "physics",
        "batch",
        "n[1-2]",
    )


def test_a_short_job_has_the_readings_of_its_seconds_though_its_minute_is_not_over(ledger: Ledger) -> None:
    readings = [(at, 380.0 if at == 20 else 100.0) for at in range(0, 40, 10)]
    ledger.write_readings(
        [MeterReading("n1", "dcmi", "total", at, at + 10, power_w, node="n1") for at, power_w in readings]
    )
    price(ledger, 0, 900, 90.0)
    short, over_two = book(ledger, ran("1", 20, 30), ran("2", 15, 25))
    assert (short.use.energy_j, short.use.basis) == (pytest.approx(3800.0), "measured")
    assert short.use.cost == pytest.approx(3800.0 * 90 / J_PER_MWH)
    assert over_two.use.energy_j == pytest.approx(5 * 100 + 5 * 380)


def test_a_job_on_a_shared_node_has_what_its_processors_are_of_it(ledger: Ledger) -> None:
    measure(ledger, "n1", 0, HOUR_S, 400.0)
    two, four = (ran(str(cpus), 0, HOUR_S, whole_nodes=False, cpus=cpus) for cpus in (2, 4))
    done = book(ledger, two, four)
    assert [each.use.energy_j for each in done] == pytest.approx([100 * HOUR_S, 200 * HOUR_S])
    assert [each.use.basis for each in done] == [
        "measured; 0.25 of its nodes by processors held",
        "measured; 0.5 of its nodes by processors held",
    ]
    assert [each.use.cost for each in done] == [None, None]


def test_unmeasured_energy_is_modelled_and_named(ledger: Ledger) -> None:
    measure(ledger, "n1", 0, 1800, 400.0)
    price(ledger, 0, HOUR_S, 100.0)
    half, none = book(ledger, ran("1", 0, HOUR_S), ran("2", 0, HOUR_S, "n2"), unseen="ended unseen within 30 s")
    assert half.use.energy_j == pytest.approx(400 * 1800 + 250 * 1800)
    assert half.use.cost == pytest.approx(650 * 1800 * 100 / J_PER_MWH)
    assert half.use.basis == "measured 50%, the rest modelled: node class server; ended unseen within 30 s"
    assert none.use.energy_j == pytest.approx(250 * HOUR_S)
    assert none.use.carbon_g == pytest.approx(250 * HOUR_S / 3.6e6 * 400)
    assert none.use.basis.startswith("modelled: node class server")
    assert (half.node_w, none.node_w) == (None, None)


def test_co2_needs_the_intensity_of_nine_tenths_of_the_time(ledger: Ledger) -> None:
    measure(ledger, "n1", 0, 10 * HOUR_S, 100.0)
    price(ledger, 0, 10 * HOUR_S - 900, 50.0)
    price(ledger, 20 * HOUR_S, 21 * HOUR_S, 50.0)
    ledger.write_prices([Price(21 * HOUR_S, 22 * HOUR_S, 50.0, "EUR", "x", None)])
    all_but_a_quarter, half = book(ledger, ran("1", 0, 10 * HOUR_S), ran("2", 20 * HOUR_S, 22 * HOUR_S))
    assert all_but_a_quarter.use.carbon_g == pytest.approx(100 * 10 * HOUR_S / 3.6e6 * 400)
    assert half.use.cost == pytest.approx(250 * 2 * HOUR_S * 50 / J_PER_MWH)
    assert half.use.carbon_g is None


def test_a_small_gap_in_the_prices_is_paid_at_the_mean_and_a_large_one_leaves_no_cost(ledger: Ledger) -> None:
    measure(ledger, "n1", 0, 10 * HOUR_S, 100.0)
    price(ledger, 0, 10 * HOUR_S - 900, 50.0)
    small, large = book(ledger, ran("1", 0, 10 * HOUR_S), ran("2", 10 * HOUR_S - 1800, 10 * HOUR_S))
    assert small.use.cost == pytest.approx(100 * 10 * HOUR_S * 50 / J_PER_MWH)
    assert (large.use.cost, large.use.energy_j) == (None, pytest.approx(100 * 1800))


def test_prices_in_two_currencies_leave_no_cost(ledger: Ledger) -> None:
    price(ledger, 0, 900, 50.0)
    price(ledger, 900, 1800, 50.0, "USD")
    (done,) = book(ledger, ran("1", 0, 1800))
    assert (done.use.cost, done.use.energy_j) == (None, 250 * 1800)
    assert done.use.basis == "modelled: node class server; prices of that time are in EUR and USD"


def test_a_job_that_ended_as_it_began_used_nothing(ledger: Ledger) -> None:
    (done,) = book(ledger, ran("1", 100, 100))
    assert (done.use.energy_j, done.use.basis, done.node_w) == (0.0, "did not run for a second", None)


def test_a_job_that_is_booked_again_counts_once(ledger: Ledger) -> None:
    measure(ledger, "n1", 0, HOUR_S, 400.0)
    for _ in range(2):
        ledger.write_jobs([each.use for each in book(ledger, ran("1", 0, HOUR_S))])
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        (ann,) = job_costs(connection, TimeRange(0, 2 * HOUR_S), ["user"], UTC)
    assert (ann.jobs, ann.energy_j) == (1, pytest.approx(400 * HOUR_S))


def test_without_a_ledger_the_jobs_wait(tmp_path: object) -> None:
    ended = [EndedJob(ran("1", 0, 100), 100)]
    with pytest.raises(BadLedger):
        book_jobs(f"sqlite:///{tmp_path}/none.sqlite", ended, CPUS, {"1": BY_CLASS})
    assert book_jobs(f"sqlite:///{tmp_path}/none.sqlite", [], CPUS, {}) == ()


Placed = tuple[int, int, int, bool]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 7199), st.integers(1, 7200), st.integers(1, 8), st.booleans()), max_size=6))
def test_the_joules_of_jobs_and_of_nobody_are_those_of_the_nodes(two_hours: Ledger, placed: Sequence[Placed]) -> None:
    jobs = _fitting(placed)
    held_j = sum(each.use.energy_j or 0.0 for each in book(two_hours, *jobs))
    idle_j = 0.0
    edges = sorted({0, 7200, *(each.start_s or 0 for each in jobs), *(each.end_s or 0 for each in jobs)})
    with open_ledger(two_hours.settings.url) as connection:
        for from_s, until_s in pairwise(edges):
            used = node_energy(connection, TimeRange(from_s, until_s), ("node",), UTC)
            free = {node: 1 - _held(jobs, node, from_s) for node in CPUS}
            idle_j += sum(free[use.of[0]] * use.energy_j for use in used)
        (both,) = node_energy(connection, TimeRange(0, 7200), (), UTC)
    assert held_j + idle_j == pytest.approx(both.energy_j)


def _fitting(placed: Sequence[Placed]) -> list[Job]:
    """Return the jobs that a scheduler would have let run there: no more processors are held than there are."""
    jobs: list[Job] = []
    for number, (start_s, length_s, cpus, on_both) in enumerate(placed):
        hosts = "n[1-2]" if on_both else "n1"
        held = {"cpus": 2 * cpus if on_both else cpus, "whole_nodes": cpus == 8}
        new = ran(str(number), start_s, min(7200, start_s + length_s), hosts, **held)
        at = [start_s, *(each.start_s or 0 for each in jobs if start_s < (each.start_s or 0) < (new.end_s or 0))]
        if all(_held([*jobs, new], node, second) <= 1 + 1e-9 for node in CPUS for second in at):
            jobs.append(new)
    return jobs


def _held(jobs: Sequence[Job], node: str, at_s: int) -> float:
    there = [each for each in jobs if (each.start_s or 0) <= at_s < (each.end_s or 0)]
    return sum(each.cpus / each.nodes / 8 for each in there if each.nodes == 2 or node == "n1")


@pytest.fixture
def two_hours(ledger: Ledger) -> Ledger:
    """Two nodes whose power changes every five minutes."""
    for number in range(24):
        for node, base_w in (("n1", 100.0), ("n2", 200.0)):
            measure(ledger, node, 300 * number, 300 * (number + 1), base_w + 17 * (number % 5))
    assert ledger.settle()
    return ledger
