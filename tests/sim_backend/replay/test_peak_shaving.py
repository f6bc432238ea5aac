"""Peak shaving in the replay: jobs that would draw a new highest quarter-hour wait, and no longer than they may."""

from datetime import UTC

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from random_logs import PLAIN, log_of
from random_power import BEFORE_ALL_S, ON_DEMAND, PoweredLog, class_of, powered, schedule_of

from offpeak.model.node_states import OFF
from offpeak.plugin.capacity.peak_shaving import NO_CAP, PeakRules, PeakTarget
from offpeak.plugin.capacity.rules import NEVER
from offpeak.prices.tariff_file import parse_tariff_file
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine

HOUR_S = 3600
NODES = 4
NEVER_SLEEP = schedule_of((BEFORE_ALL_S, NODES, 0, [NEVER] * 3))
IDLE_W = 10


def started_s(rows, *, target_w=0, longest_s=0, targets=None, more=()) -> list[int]:
    """Return the starts of jobs (submit, run, estimate, nodes, W per node) on four nodes that idle at 10 W.

    `targets` are the rows (at, W, is new) of a charge, `more` those of a further charge at the same times.
    """
    charges = [list(zip(*each, strict=True)) for each in (targets or [(0, target_w, True)], more) if each]
    target_mw = [[NO_CAP if each is None else 1000 * each for each in watts] for _, watts, _ in charges]
    is_new = np.array([new for *_, new in charges])
    at_s, state_mw = np.array(charges[0][0], np.int64), np.zeros(11, np.int64)
    peak = PeakRules(at_s, np.array(target_mw, np.int64), is_new, longest_s, 1000 * IDLE_W, state_mw)
    machine = PoweredMachine(NODES, 1, class_of((OFF, 1, 1)))
    case = PoweredLog(log_of(rows, machine_size=NODES), PLAIN, machine, ON_DEMAND, NEVER_SLEEP)
    return powered(case, peak).start_s.tolist()


def test_a_job_waits_until_it_fits_below_the_target_and_others_pass_it():
    rows = [(0, HOUR_S, HOUR_S, 2, 100), (1, HOUR_S, HOUR_S, 2, 100), (2, HOUR_S, HOUR_S, 1, 20)]
    assert started_s(rows) == [0, 1, HOUR_S]
    # 200 W of the first and 20 W of two idle nodes leave 80 of 300 W: 180 W more are too many, 10 W are not.
    assert started_s(rows, target_w=300, longest_s=10 * HOUR_S) == [0, HOUR_S, 2]


def test_a_job_that_has_waited_long_enough_starts():
    rows = [(0, 9 * HOUR_S, 9 * HOUR_S, 2, 100), (1, HOUR_S, HOUR_S, 2, 100)]
    assert started_s(rows, target_w=300, longest_s=600) == [0, 601]


def test_a_peak_that_is_paid_holds_no_job_until_a_new_period_begins():
    day_s = 24 * HOUR_S
    rows = [
        (0, 1800, 1800, 4, 100),
        (HOUR_S, 1800, 1800, 4, 90),
        (day_s, 9 * HOUR_S, 9 * HOUR_S, 2, 100),
        (day_s + 1, 1800, 1800, 2, 90),
    ]
    one_period = started_s(rows, target_w=150, longest_s=1800)
    # The first job has drawn 400 W in a full quarter-hour.
    assert one_period == [1800, HOUR_S, day_s, day_s + 1]
    two = started_s(rows, targets=[(0, 150, True), (day_s, 150, True)], longest_s=1800)
    assert two == [1800, HOUR_S, day_s + 1800, day_s + 1801]


def test_quarter_hours_that_do_not_count_hold_no_job():
    rows = [(0, 600, 600, 4, 100), (HOUR_S, 600, 600, 4, 100), (2 * HOUR_S, 600, 600, 4, 100)]
    times = [(0, 50, True), (HOUR_S, None, False), (2 * HOUR_S, 50, False)]
    assert started_s(rows, targets=times, longest_s=1800) == [1800, HOUR_S, 2 * HOUR_S + 1800]


def test_each_charge_has_its_own_peak():
    day_s = 24 * HOUR_S
    rows = [(0, 1800, 1800, 4, 100), (day_s, 9 * HOUR_S, 9 * HOUR_S, 2, 100), (day_s + 1, 1800, 1800, 2, 90)]
    always, at_noon = [(0, 150, True), (day_s, 150, False)], [(0, None, True), (day_s, 150, False)]
    assert started_s(rows, targets=always, longest_s=1800) == [1800, day_s, day_s + 1]
    # The 400 W of the first job are paid by one charge, and not by the other, which counts from the second day on.
    both = started_s(rows, targets=always, more=at_noon, longest_s=1800)
    assert both == [1800, day_s + 1800, day_s + 1801]


TARIFF = parse_tariff_file(
    b'currency = "EUR"\nzone = "Europe/Berlin"\n[[energy]]\nprice = "100EUR/MWh"\n'
    b'[[demand]]\nprice = "1EUR/kW"\nper = "month"\n[[demand]]\nname = "noon"\nprice = "2EUR/kW"\nper = "year"\n'
    b'[[demand.window]]\nhours = "11:00-13:00"\ndays = "mon-fri"\n',
    "two",
    UTC,
)


@given(st.integers(1_700_000_000, 1_800_000_000), st.integers(1, 400 * 96), st.integers(1, 10**6))
def test_the_rules_of_a_target_are_those_of_the_charges(begin_s, quarters, target_w):
    start_s = np.arange(begin_s // 900 * 900, (begin_s // 900 + quarters) * 900, 900)
    node_class = class_of((OFF, 1, 1))
    rules = PeakTarget(target_w, 60).rules(TARIFF, start_s, node_class, 1)
    at = np.searchsorted(rules.at_s, start_s, side="right") - 1
    cells, months = TARIFF.calendar.cells(start_s), TARIFF.calendar.months(start_s)
    for number, charge in enumerate(TARIFF.demand):
        assert ((rules.target_mw[number][at] == 1000 * target_w) == charge.counts(cells)).all()
        first = np.flatnonzero(np.diff(charge.period(months), prepend=-1))
        assert rules.at_s[rules.is_new[number]].tolist() == start_s[first].tolist()


job = st.tuples(
    st.integers(0, 900), st.integers(1, 4000), st.integers(1, 4000), st.integers(1, NODES), st.integers(20, 90)
)


@given(st.lists(job, min_size=1, max_size=25), st.integers(50, 400), st.integers(1, 20_000))
def test_every_job_starts_and_none_below_the_cap_waits_for_it(rows, target_w, longest_s):
    submit_s = np.cumsum([row[0] for row in rows]).tolist()
    rows = [(at_s, *row[1:]) for at_s, row in zip(submit_s, rows, strict=True)]
    start_s = started_s(rows, target_w=target_w, longest_s=longest_s)
    assert all(start >= submit for start, submit in zip(start_s, submit_s, strict=True))
    above = NODES * 90
    assert started_s(rows, target_w=above, longest_s=longest_s) == started_s(rows)
    starts = sorted(zip(start_s, rows, strict=True))
    for at_s, _ in starts:
        running = [(each, row) for each, row in starts if each <= at_s < each + row[1]]
        busy = sum(row[3] for _, row in running)
        drawn_w = sum(row[3] * row[4] for _, row in running) + IDLE_W * (NODES - busy)
        waited = max(each - row[0] for each, row in running)
        assert drawn_w <= target_w or waited >= longest_s or any(each - row[0] >= longest_s for each, row in starts)
