"""What the ledger answers: records of a time, and energy and cost by day, node, user and account."""

import itertools
import secrets
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_sums import count

from offpeak.door.effect import Effect, Outcome, Refusal
from offpeak.errors import BadInput, BadLedger
from offpeak.ledger import tables
from offpeak.ledger.database import open_ledger
from offpeak.ledger.energy_use import EnergyUse, check_groups
from offpeak.ledger.job_costs import job_costs
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.node_energy import node_energy
from offpeak.ledger.prices import assumed_share, read_prices
from offpeak.ledger.records import actions_in, decisions_in, decisions_of, savings_in, states_in
from offpeak.ledger.rows import DecisionRecord, JobUse, MeterReading, NodeStateRecord, Price, SavingRecord
from offpeak.model.constants import J_PER_MWH, QUARTER_S
from offpeak.model.orders import NodeOrder
from offpeak.model.time_range import TimeRange

BERLIN = ZoneInfo("Europe/Berlin")
HOUR_S, DAY_S = 3600, 86_400
KWH = 3.6e6


def midnight(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp())


def steady(node: str, from_s: float, until_s: float, power_w: float, way: str = "snmp") -> list[MeterReading]:
    """A reading every five minutes."""
    steps = [from_s + 300 * number for number in range(round((until_s - from_s) / 300))]
    part = f"outlet {node}" if way == "snmp" else "total"
    return [MeterReading(f"{way}-{node}", way, part, start, start + 300, power_w, node=node) for start in steps]


def ask(ledger: Ledger, span: TimeRange, *by: str) -> list[EnergyUse]:
    with open_ledger(ledger.settings.url) as connection:
        question = node_energy if set(by) <= {"day", "node"} else job_costs
        return question(connection, span, by, BERLIN)


def test_days_have_their_hours_and_their_prices(ledger: Ledger) -> None:
    start, end = midnight("2026-10-24"), midnight("2026-10-27")
    ledger.write_readings(steady("n1", start, end, 1000.0) + steady("n2", start, start + DAY_S, 500.0))
    hours = range(start, end, HOUR_S)
    ledger.write_prices([Price(at, at + HOUR_S, 100.0 if at < start + DAY_S else 50.0, "EUR", "x") for at in hours])
    assert ledger.settle()
    days = ask(ledger, TimeRange(start, end), "day")
    assert [day.of for day in days] == [("2026-10-24",), ("2026-10-25",), ("2026-10-26",)]
    assert [day.energy_j / KWH for day in days] == pytest.approx([36.0, 25.0, 24.0])
    assert [day.cost for day in days] == pytest.approx([3.6, 1.25, 1.2])
    assert {day.currency for day in days} == {"EUR"}
    assert [day.covered for day in days] == [1.0, 0.5, 0.5], "of both nodes"
    nodes = ask(ledger, TimeRange(start, end), "node")
    assert [(node.of, node.energy_j / KWH) for node in nodes] == [
        (("n1",), pytest.approx(73.0)),
        (("n2",), pytest.approx(12.0)),
    ]
    assert nodes[1].covered == pytest.approx(24 / 73)
    (whole,) = ask(ledger, TimeRange(start, end))
    assert (whole.of, whole.energy_j) == ((), pytest.approx(85.0 * KWH))


def test_of_two_meters_one_counts_in_each_quarter_hour(ledger: Ledger) -> None:
    ledger.write_readings(steady("n1", 0, HOUR_S, 1000.0) + steady("n1", 0, HOUR_S, 900.0, "dcmi"))
    ledger.write_readings(steady("n2", 0, HOUR_S / 2, 1000.0) + steady("n2", 0, HOUR_S, 900.0, "dcmi"))
    ledger.write_readings([MeterReading("pdu1", "snmp", "total", 0.0, HOUR_S, 9999.0)])
    # A reading that came some seconds late is no reason to take another meter.
    ledger.write_readings(steady("n3", 0, HOUR_S, 900.0, "dcmi"))
    ledger.write_readings([MeterReading("snmp-n3", "snmp", "outlet n3", 5.0, HOUR_S, 1000.0, node="n3")])
    ledger.write_readings(steady("n4", QUARTER_S, HOUR_S, 1000.0) + steady("n4", 0, HOUR_S, 900.0, "dcmi"))
    assert ledger.settle()
    nodes = ask(ledger, TimeRange(0, HOUR_S), "node")
    assert [node.energy_j / KWH for node in nodes] == pytest.approx([1.0, 0.95, 3595 / HOUR_S, 0.975])
    assert [node.cost for node in nodes] == [None, None, None, None]
    assert [node.unpriced_j for node in nodes] == [node.energy_j for node in nodes]


def test_a_time_within_a_quarter_hour_is_measured_by_its_minutes(ledger: Ledger) -> None:
    ledger.write_readings(steady("n1", 0, 600, 100.0) + steady("n1", 600, 1800, 400.0))
    assert ledger.settle()
    assert ask(ledger, TimeRange(0, 660))[0].energy_j == pytest.approx(600 * 100 + 60 * 400)
    assert ask(ledger, TimeRange(330, 630))[0].energy_j == pytest.approx(270 * 100 + 30 * 400)
    # In PostgreSQL the minutes of a month go together.
    ledger.prune((31 + 90) * DAY_S)
    assert count(ledger.settings.url, tables.minutes) == 0
    assert ask(ledger, TimeRange(0, 900))[0].energy_j == pytest.approx(600 * 100 + 300 * 400)
    # Nothing finer is known any more than the mean of the quarter-hour, 200 W.
    assert ask(ledger, TimeRange(0, 450))[0].energy_j == pytest.approx(450 * 200)


def test_a_time_within_a_minute_is_measured_by_its_readings(ledger: Ledger) -> None:
    watts = (100.0, 380.0, 50.0, None)
    ledger.write_readings([reading(10.0 * number, 10.0 * number + 10, value) for number, value in enumerate(watts)])
    ledger.write_prices([Price(0, 900, 90.0, "EUR", "x")])
    assert ledger.settle()
    (ten,) = ask(ledger, TimeRange(10, 20))
    assert (ten.energy_j, ten.covered) == (pytest.approx(3800.0), 1.0)
    assert ten.cost == pytest.approx(3800.0 / J_PER_MWH * 90)
    (both,) = ask(ledger, TimeRange(5, 25))
    assert (both.energy_j, both.covered) == (pytest.approx(5 * 100 + 3800 + 5 * 50), 1.0)
    (end,) = ask(ledger, TimeRange(25, 35))
    assert (end.energy_j, end.covered) == (pytest.approx(5 * 50), pytest.approx(0.5))
    assert ask(ledger, TimeRange(31, 39)) == []
    ledger.prune(7 * DAY_S + 60)
    assert count(ledger.settings.url, tables.readings) == 0
    # Nothing finer is known any more than 5,300 J in half of the minute.
    (ten,) = ask(ledger, TimeRange(10, 20))
    assert (ten.energy_j, ten.covered) == (pytest.approx(5300 / 6), pytest.approx(0.5))


def reading(from_s: float, until_s: float, power_w: float | None, node: str = "n1") -> MeterReading:
    return MeterReading(node, "dcmi", "total", from_s, until_s, power_w, node=node)


Held = tuple[float, float, int | None]
CHANGES = st.tuples(st.floats(0.5, 70), st.floats(0, 9), st.one_of(st.none(), st.integers(0, 5000)))


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(CHANGES, max_size=12), st.lists(st.tuples(st.floats(0, 400), st.floats(0.5, 300)), max_size=3))
def test_any_time_has_the_energy_of_the_readings_that_lie_in_it(
    priced: Ledger, held: list[Held], requests: list[tuple[float, float]]
) -> None:
    readings, at_s = list[MeterReading](), 600.0
    node = secrets.token_hex(8)
    for length_s, gap_s, power_w in held:
        readings.append(reading(at_s, at_s + length_s, power_w, node))
        at_s += length_s + gap_s
    priced.write_readings(readings)
    assert priced.settle()
    for from_s, length_s in requests:
        span = TimeRange(600 + from_s, 600 + from_s + length_s)
        overlaps = [(overlap_s(each, span), each.power_w) for each in readings if each.power_w is not None]
        known_s, energy_j = sum(s for s, _ in overlaps), sum(s * power_w for s, power_w in overlaps)
        used = [use for use in ask(priced, span, "node") if use.of == (node,)]
        assert sum(use.energy_j for use in used) == pytest.approx(energy_j, abs=1e-3)
        assert sum(use.covered or 0.0 for use in used) == pytest.approx(known_s / length_s, abs=1e-6)
        assert sum(use.cost or 0.0 for use in used) == pytest.approx(energy_j / J_PER_MWH * 90, abs=1e-6)


def overlap_s(reading: MeterReading, span: TimeRange) -> float:
    return max(0.0, min(reading.until_unix_s, span.until_unix_s) - max(reading.from_unix_s, span.from_unix_s))


@pytest.fixture
def priced(ledger: Ledger) -> Ledger:
    """Two hours at one price."""
    ledger.write_prices([Price(0, 7200, 90.0, "EUR", "x")])
    return ledger


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 7200), min_size=1, max_size=4))
def test_energy_adds_up_however_a_time_is_cut(two_hours: Ledger, cuts: list[int]) -> None:
    edges = sorted({0, *cuts, 7200})
    parts = [ask(two_hours, TimeRange(a, b)) for a, b in itertools.pairwise(edges)]
    (whole,) = ask(two_hours, TimeRange(0, 7200))
    found = [part[0] for part in parts if part]
    assert sum(part.energy_j for part in found) == pytest.approx(whole.energy_j)
    assert sum(part.cost or 0.0 for part in found) == pytest.approx(whole.cost or 0.0)


@pytest.fixture
def two_hours(ledger: Ledger) -> Ledger:
    """Two hours of a changing power at a changing price, of a node whose outlet has a gap, and whose BMC has none."""
    for number in range(24):
        watts, edges_s = 100.0 + 17 * (number % 5), (300 * number, 300 * (number + 1))
        ledger.write_readings(steady("n1", *edges_s, watts) if number != 7 else [])
        ledger.write_readings(steady("n1", *edges_s, 0.9 * watts, "dcmi"))
    ledger.write_prices([Price(at, at + 900, 30.0 + at / 100, "EUR", "x") for at in range(0, 7200, 900)])
    assert ledger.settle()
    return ledger


def test_prices_of_five_minutes_are_averaged_and_gaps_have_none(ledger: Ledger) -> None:
    ledger.write_readings(steady("n1", 0, HOUR_S, 3600.0))
    ledger.write_prices([Price(0, 300, 10.0, "USD", "x"), Price(300, 600, 20.0, "USD", "x", 400.0)])
    ledger.write_prices([Price(600, 1800, 60.0, "USD", "x", 400.0), Price(2700, 3600, 0.0, "USD", "x", 100.0)])
    assert ledger.settle()
    (hour,) = ask(ledger, TimeRange(0, HOUR_S))
    quarter_mwh = 3600 * 900 / 3.6e9
    assert hour.cost == pytest.approx(quarter_mwh * (30.0 + 60.0 + 0.0))
    assert hour.unpriced_j == pytest.approx(3600 * 900)
    assert hour.carbon_g == pytest.approx(quarter_mwh * 1000 * (400 + 100))
    ledger.write_prices([Price(1800, 2700, 1.0, "EUR", "x")])
    assert ledger.settle()
    with pytest.raises(BadInput, match="prices of that time are in EUR and USD"):
        ask(ledger, TimeRange(0, HOUR_S))


def job(name: str, ended_s: float, user: str, account: str, energy_j: float | None, cost: float | None) -> JobUse:
    return JobUse(name, ended_s - 600, ended_s, user, account, "batch", "n[1-2]", energy_j, cost, "EUR", 5.0, "metered")


def test_jobs_are_counted_where_they_ended(ledger: Ledger) -> None:
    start = midnight("2026-11-01")
    ledger.write_jobs(
        [
            job("1", start + 60, "ann", "physics", KWH, 0.5),
            job("2", start + DAY_S, "ann", "physics", 2 * KWH, 1.0),
            job("3", start + DAY_S + 1, "bob", "biology", 3 * KWH, None),
            job("4", start + DAY_S + 2, "bob", "biology", None, None),
            job("5", start + 2 * DAY_S, "cid", "biology", KWH, 1.0),
        ]
    )
    ledger.write_jobs([job("1", start + 60, "ann", "physics", KWH, 0.25)])
    assert ledger.settle()
    span = TimeRange(start, start + 2 * DAY_S)
    assert ask(ledger, span, "account") == [
        EnergyUse(("biology",), 3 * KWH, None, "EUR", 3 * KWH, 10.0, jobs=2),
        EnergyUse(("physics",), 3 * KWH, 1.25, "EUR", 0.0, 10.0, jobs=2),
    ]
    assert [(use.of, use.jobs) for use in ask(ledger, span, "user", "day")] == [
        (("ann", "2026-11-01"), 1),
        (("ann", "2026-11-02"), 1),
        (("bob", "2026-11-02"), 2),
    ]


@pytest.mark.parametrize(
    ("by", "message"), [(["nod"], "--by nod: is not a group"), (["node", "user"], "not known by user")]
)
def test_groups_that_nobody_measures_are_refused(by: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        check_groups(by)
    check_groups(["day", "user", "account"])


def test_records_of_a_time_in_order(ledger: Ledger) -> None:
    sleep = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle", (("idle_s", 1200.0),))
    done = ledger.write_intent(sleep, 100.0)
    ledger.write_outcome(done, Outcome("done", "accepted"), 101.5)
    ledger.write_intent(Effect("n2", NodeOrder.ON, "admin ann", "asked"), 150.0)
    late = ledger.write_intent(sleep, 130.0)
    ledger.write_outcome(late, Outcome("refused", "no answer was younger than 2 s", "too_late"), 136.0)
    failed = ledger.write_intent(sleep, 140.0)
    ledger.write_outcome(failed, Outcome("failed", "silent", "NoAnswer"), 141.0)
    ledger.write_refusal(sleep, Refusal("held", "ann holds it", "ask her"), 120.0)
    ledger.write_decisions([DecisionRecord(99.0, "n1", "sleep", "idle for 20 min", (("idle_s", 1200.0),))])
    ledger.write_states(
        [NodeStateRecord("n1", 50.0, "on", "on", "scheduler"), NodeStateRecord("n1", 101.0, "off", "off", "offpeak")]
    )
    ledger.write_states([NodeStateRecord("n2", 60.0, "unknown", "on", "unknown", "no answer")])
    ledger.write_savings([SavingRecord(0.0, 86400.0, "always on", 2.0, None, 1.0, None, "EUR")])
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        actions = actions_in(connection, TimeRange(90, 200))
        assert [(action["at_unix_s"], action["result"], action["rule"], action["said"]) for action in actions] == [
            (100.0, "done", "", "accepted"),
            (120.0, "refused", "held", "ann holds it"),
            (130.0, "refused", "too_late", "no answer was younger than 2 s"),
            (140.0, "failed", "", "silent"),
            (150.0, "open", "", ""),
        ]
        assert actions[0]["inputs"] == [["idle_s", 1200.0]]
        assert [action["subject"] for action in actions_in(connection, TimeRange(0, 200), ["n2"])] == ["n2"]
        (decision,) = decisions_in(connection, TimeRange(0, 100), ["n1"])
        assert decision["inputs"] == [["idle_s", 1200.0]]
        assert decisions_in(connection, TimeRange(100, 200)) == []
        states = states_in(connection, TimeRange(70, 200))
        assert [(state["node"], state["at_unix_s"], state["observed"]) for state in states] == [
            ("n1", 50.0, "on"),
            ("n2", 60.0, "unknown"),
            ("n1", 101.0, "off"),
        ]
        (saving,) = savings_in(connection, TimeRange(0, 100))
        assert (saving["baseline_energy_j"], saving["energy_j"], saving["cost"]) == (2.0, 1.0, None)


def test_the_latest_decisions_of_a_job_come_first(ledger: Ledger) -> None:
    ledger.write_decisions([DecisionRecord(float(at), "1841", f"place {at}", "on-peak") for at in (1, 3, 2)])
    ledger.write_decisions([DecisionRecord(4.0, "1842", "place 1", "on-peak")])
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        assert [decision["decided"] for decision in decisions_of(connection, "1841", most=2)] == ["place 3", "place 2"]
        assert decisions_of(connection, "9", most=2) == []


def test_missing_ledger_is_reported(tmp_path: object) -> None:
    with pytest.raises(BadLedger, match="there is no ledger"), open_ledger(f"sqlite:///{tmp_path}/none.sqlite"):
        pass


def test_utc_has_no_changes(ledger: Ledger) -> None:
    ledger.write_readings(steady("n1", 0, 2 * DAY_S, 1000.0))
    assert ledger.settle()
    with open_ledger(ledger.settings.url) as connection:
        days = node_energy(connection, TimeRange(0, 2 * DAY_S), ["day", "node"], UTC)
    assert [day.of for day in days] == [("1970-01-01", "n1"), ("1970-01-02", "n1")]


def test_a_price_that_was_replaced_before_a_time_is_no_share_of_it(ledger: Ledger) -> None:
    ledger.write_prices([Price(0, 3600, 30.0, "EUR", "assumed tariff"), Price(1800, 2700, 40.0, "EUR", "file")])
    assert ledger.settle()
    shares = {(2400, 2700): 0.0, (1200, 2400): 0.5, (0, 1800): 1.0, (3000, 3600): 0.0}
    with open_ledger(ledger.settings.url) as connection:
        assert read_prices(connection, TimeRange(3000, 3600)) is None
        assert {span: assumed_share(connection, TimeRange(*span)) for span in shares} == shares
