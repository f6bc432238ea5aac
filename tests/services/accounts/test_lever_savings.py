"""What the levers saved, or would have saved, on days that the engine has played."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from lever_days import CLASS, NODES, LeverDaysSite, day, days_jobs, lever_days, settings_of

from offpeak.door.effect import Effect, Outcome
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobUse, SavingRecord
from offpeak.machines.inventory import Enclosure
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.node_class import EnclosurePower
from offpeak.model.orders import QueueChange
from offpeak.model.time_range import TimeRange
from offpeak.services.accounts.lever_savings import (
    CARRIED_OUT,
    IN_PART,
    KEPT_BACK,
    OWN_ORDER,
    SHADOW_BASELINES,
    book_levers,
)
from offpeak.services.accounts.lever_site import enclosures_in
from offpeak.settings.ledger import LedgerSettings


@pytest.fixture(scope="module")
def shadow(tmp_path_factory: pytest.TempPathFactory) -> LeverDaysSite:
    return lever_days(tmp_path_factory.mktemp("shadow") / "ledger.sqlite")


def booked(site: LeverDaysSite, *days: int, is_active: bool = False, **changes: object) -> tuple[SavingRecord, ...]:
    return book_levers(site.url, site.site(is_active=is_active, **changes), [day(each) for each in days])


def changed(site: LeverDaysSite, *statements: str) -> None:
    with closing(sqlite3.connect(site.url.removeprefix("sqlite:///"))) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def money(row: SavingRecord) -> float:
    assert row.baseline_cost is not None
    assert row.cost is not None
    return row.baseline_cost - row.cost


def test_shadow_promises_what_the_same_days_in_active_mode_save(shadow: LeverDaysSite, tmp_path: Path) -> None:
    would = {(row.from_unix_s, row.lever): row for row in booked(shadow, 3, 4, 5)}
    assert {lever for _, lever in would} == {"order", "sleep"}
    assert all(row.is_shadow and row.baseline == SHADOW_BASELINES[row.lever] for row in would.values())
    active = lever_days(tmp_path / "ledger.sqlite", policy="greedy", mode="active")
    did = booked(active, 3, 4, 5, is_active=True)
    assert [(row.lever, row.is_shadow, row.baseline) for row in did] == [("order", False, OWN_ORDER)] * 3
    promised = [would[row.from_unix_s, "order"] for row in did]
    assert sum(map(money, did)) == pytest.approx(sum(map(money, promised)), rel=0.05)
    low, high = (
        sum(values) for values in zip(*((row.low_cost or 0, row.high_cost or 0) for row in promised), strict=True)
    )
    assert low <= sum(map(money, did)) <= high
    assert all(row.delayed_jobs and row.delay_s for row in promised)


def test_nodes_that_nothing_needs_would_have_slept(tmp_path: Path) -> None:
    site = lever_days(tmp_path / "ledger.sqlite", jobs=days_jobs(per_day=4))
    (sleep,) = (row for row in booked(site, 4) if row.lever == "sleep")
    assert sleep.node_hours is not None
    assert 0.7 * 24 * NODES < sleep.node_hours < 24 * NODES
    off_w = CLASS.depths[-1].power_w
    most_j = (CLASS.idle_w - off_w) * sleep.node_hours * HOUR_S
    assert sleep.baseline_energy_j - sleep.energy_j == pytest.approx(most_j, rel=0.05)
    assert sleep.saved_carbon_g == pytest.approx(300 * (sleep.baseline_energy_j - sleep.energy_j) / 3.6e6, rel=1e-3)


def test_lone_sleepers_of_an_enclosure_would_have_saved_less(tmp_path: Path) -> None:
    site = lever_days(tmp_path / "ledger.sqlite", jobs=days_jobs(per_day=40))
    blade = replace(CLASS, enclosure=EnclosurePower(4, 40.0))

    def saved(*enclosures: tuple[int, int]) -> tuple[float, float]:
        rows = {row.lever: row for row in booked(site, 4, classes=(blade,), enclosures=(enclosures,))}
        row = rows["sleep"]
        assert row.baseline_energy_j is not None
        assert row.energy_j is not None
        return row.baseline_energy_j - row.energy_j, row.node_hours or 0.0

    (unnamed_j, node_hours), (named_j, _), (alone_j, _) = saved(), saved(*[(4, 4)] * 4), saved((NODES, NODES + 1))
    assert alone_j == pytest.approx(unnamed_j - 10.0 * node_hours * HOUR_S, rel=0.02)
    assert alone_j < named_j < unnamed_j


def test_enclosures_of_a_pool_come_last_if_they_can_sleep_as_a_whole() -> None:
    c1, c2 = Enclosure("c1", ("n1", "n2", "n3")), Enclosure("c2", ("n4", "n5"))
    enclosure_of = {node: each for each in (c1, c2) for node in (each.name, *each.nodes)}
    assert enclosures_in(("n0", "n1", "n2", "n4", "n5"), enclosure_of) == ((2, 3), (2, 2))
    assert enclosures_in(("n0", "n9"), enclosure_of) == ()


def test_a_day_without_jobs_is_known(tmp_path: Path) -> None:
    site = lever_days(tmp_path / "ledger.sqlite", jobs=days_jobs(per_day=0))
    order, sleep = booked(site, 4)
    assert (money(order), order.delayed_jobs) == (pytest.approx(0.0, abs=1e-9), 0)
    assert sleep.node_hours == pytest.approx(24 * NODES, rel=1e-3)
    assert sleep.saved_carbon_g == pytest.approx(300 * (sleep.baseline_energy_j - sleep.energy_j) / 3.6e6, rel=1e-3)


def test_rows_of_an_older_version_and_no_prices_are_no_figures(tmp_path: Path) -> None:
    old = lever_days(tmp_path / "old.sqlite", submitted_unix_s=None)
    rows = booked(old, 4)
    assert {row.lever for row in rows} == {"order", "sleep"}
    assert all(row.energy_j is None and row.cost is None and row.delayed_jobs is None for row in rows)
    some = lever_days(tmp_path / "some.sqlite")
    first_job = f"select job from jobs where ended_unix_s > {day(3).from_unix_s} limit 1"
    changed(
        some,
        f"update jobs set submitted_unix_s = null where job in ({first_job})",
        f"delete from prices where from_unix_s >= {day(4).from_unix_s}",
    )
    known, unpriced = (
        [row for row in booked(some, 3, 4) if row.from_unix_s == day(each).from_unix_s] for each in (3, 4)
    )
    assert all(row.cost is not None and "1 job cannot be replayed" in row.basis for row in known)
    assert all(row.cost is None and row.low_cost is None and not row.currency for row in unpriced)
    assert all("has no price" in row.basis and row.baseline_energy_j > 0 for row in unpriced)


def test_a_day_in_two_currencies_and_a_plan_are_not_known(shadow: LeverDaysSite, tmp_path: Path) -> None:
    site = lever_days(tmp_path / "ledger.sqlite")
    changed(site, f"update prices set currency = 'CHF' where from_unix_s >= {day(4).from_unix_s}")
    assert all("CHF and EUR" in row.basis and row.energy_j is None for row in booked(site, 4))
    planned = booked(shadow, 4, settings=settings_of(queue="plan"))
    assert all("a plan that changed" in row.basis for row in planned)
    asleep_only = booked(shadow, 4, settings=settings_of(queue="off"))
    assert [row.lever for row in asleep_only] == ["sleep"]
    assert [row.lever for row in booked(shadow, 4, classes=(None,))] == ["order"]


def test_jobs_without_limit_and_rows_of_a_first_day_are_replayed(tmp_path: Path) -> None:
    site = lever_days(tmp_path / "ledger.sqlite", jobs=days_jobs(per_day=30), limit_s=None)
    begun = day(4).from_unix_s + 9 * HOUR_S
    span = TimeRange(begun, day(4).until_unix_s)
    rows = book_levers(site.url, site.site(known_since=begun), [span])
    assert [(row.lever, row.from_unix_s, row.until_unix_s) for row in rows] == [
        (lever, span.from_unix_s, span.until_unix_s) for lever in ("order", "sleep")
    ]
    whole = {row.lever: row for row in booked(site, 4)}
    assert 0 < (rows[1].node_hours or 0) < (whole["sleep"].node_hours or 0)
    assert rows[1].cost is not None
    apart = book_levers(site.url, site.site(), [TimeRange(day(4).from_unix_s, begun), span])
    hours = sum(row.node_hours or 0.0 for row in apart if row.lever == "sleep")
    assert hours == pytest.approx(whole["sleep"].node_hours, rel=1e-6), "two times of a day are the day"


def test_two_kinds_of_nodes_are_replayed_on_their_pools(shadow: LeverDaysSite) -> None:
    names = [f"n{number:02}" for number in range(NODES)]
    thin = Pool(NodeType(16, 64_000), frozenset({"batch"}), 10, frozenset(names[:10]))
    fat = Pool(NodeType(16, 256_000), frozenset({"batch"}), 6, frozenset(names[10:]))
    for is_shared in (False, True):
        cluster = Cluster((thin, fat), {"batch": Partition("batch", shared=is_shared)})
        mixed = {
            row.lever: row for row in booked(shadow, 4, cluster=cluster, classes=(CLASS, CLASS), enclosures=((), ()))
        }
        equal = {row.lever: row for row in booked(shadow, 4)}
        assert money(mixed["order"]) == pytest.approx(money(equal["order"]), rel=0.25)
        assert mixed["sleep"].node_hours == pytest.approx(equal["sleep"].node_hours, abs=0.03 * 24 * NODES)
        part = {
            row.lever: row for row in booked(shadow, 4, cluster=cluster, classes=(CLASS, None), enclosures=((), ()))
        }
        assert 0 < (part["sleep"].node_hours or 0) < (mixed["sleep"].node_hours or 0)


def test_jobs_that_have_not_ended_count_as_expected(shadow: LeverDaysSite) -> None:
    begun = day(5).from_unix_s
    last = JobUse("x", begun, begun + 30 * HOUR_S, "ann", "a", "batch", "n01", 200.0 * 30 * HOUR_S, None, "")
    last = replace(last, submitted_unix_s=begun, node_count=1, cpus=16)
    alone, with_job = (booked(shadow, 5, not_ended=jobs)[0] for jobs in ((), (last,)))
    more_j = with_job.baseline_energy_j - alone.baseline_energy_j
    assert more_j == pytest.approx((200.0 - CLASS.idle_w) * DAY_S, rel=1e-6), "the part of it in that day"


def test_a_row_of_the_other_mode_counts_no_more(tmp_path: Path) -> None:
    site = lever_days(tmp_path / "ledger.sqlite", mode="active")
    promised = replace(next(iter(booked(lever_days(tmp_path / "shadow.sqlite"), 4))), until_unix_s=day(5).from_unix_s)
    slept = replace(promised, baseline=SHADOW_BASELINES["sleep"], lever="sleep")
    write(site, promised, slept)
    rows = {(row.lever, row.is_shadow): row for row in booked(site, 4, is_active=True)}
    assert rows["order", False].cost is not None
    for lever in ("order", "sleep"):
        assert rows[lever, True].basis == "not known, because " + CARRIED_OUT
        assert rows[lever, True].cost is rows[lever, True].baseline_cost is None
    write(site, *rows.values())
    again = booked(site, 4, is_active=True)
    assert [(row.lever, row.is_shadow) for row in again] == [("order", False)], "nothing is left to replace"
    kept = lever_days(tmp_path / "kept.sqlite")
    write(kept, rows["order", False])
    (real,) = (row for row in booked(kept, 4) if not row.is_shadow)
    assert (real.lever, real.baseline, real.basis) == ("order", OWN_ORDER, "not known, because " + KEPT_BACK)


def test_orders_of_some_partitions_or_of_a_part_of_the_day_claim_nothing(tmp_path: Path) -> None:
    part = lever_days(tmp_path / "part.sqlite", mode="active")
    for site in (part, lever_days(tmp_path / "kept.sqlite")):
        rows = book_levers(site.url, site.site(is_active=None), [day(4)])
        assert {(row.lever, row.is_shadow) for row in rows} == {("order", False), ("order", True), ("sleep", True)}
        assert {row.basis for row in rows} == {"not known, because " + IN_PART}
    one_minute = lever_days(tmp_path / "minute.sqlite")
    order = Effect("queue of batch", QueueChange.RANK, "offpeak", "on-peak")
    ledger = Ledger(LedgerSettings(url=one_minute.url))
    ledger.ready()
    at_s = day(4).from_unix_s + HOUR_S
    ledger.write_outcome(ledger.write_intent(order, at_s), Outcome("done", "accepted"), at_s + 1)
    assert ledger.close() == 0
    found = {(row.lever, row.is_shadow): row for row in booked(one_minute, 4)}
    assert found["order", True].basis == found["order", False].basis == "not known, because " + IN_PART
    assert found["sleep", True].cost is not None


def test_figures_that_are_booked_stay_where_a_later_replay_fails(tmp_path: Path) -> None:
    site = lever_days(tmp_path / "ledger.sqlite")
    known = booked(site, 4)
    write(site, *known[:1])
    changed(site, "delete from prices")
    assert [row.lever for row in booked(site, 4)] == [known[1].lever]


def write(site: LeverDaysSite, *rows: SavingRecord) -> None:
    ledger = Ledger(LedgerSettings(url=site.url))
    ledger.ready()
    ledger.write_savings(rows)
    assert ledger.close() == 0
