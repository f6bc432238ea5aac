"""Energy and money of nodes that sleep: against each node's own joules second by second, and today's accounting."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_node_logs import IDLE_W, Placed, meters, placed, state_at

from offpeak.errors import OffpeakError
from offpeak.model.node_class import EnclosurePower
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.node_states import ACTIVE, FAILED, OFF, STANDBY, STATES, asleep, coming_up, going_down
from offpeak.model.step_integrals import StepIntegral, Usage, energy_and_charge, integral, integrate_constant
from offpeak.sim_backend.nodes.node_log import NodeCharge, NodeLog, PoweredUsage, node_energy_and_charge, state_times

ENERGY = integrate_constant(1.0)


def energy(powered: PoweredUsage) -> NodeCharge:
    return node_energy_and_charge(ENERGY, powered)[0]


def node_w(case: Placed, node: int, second: int) -> float:
    """What the node draws in that second."""
    usage, log = case.powered.usage, case.powered.node_log
    state = state_at(log, node, second)
    if state != ACTIVE:
        return float(case.powered.node_class.state_w()[state])
    runs = (np.array(case.node_of_job) == node) & (usage.start_s <= second) & (second < usage.end_s)
    idle_units = log.units_per_node - int(usage.size[runs].sum())
    return float(usage.node_power_w[runs].sum()) + idle_units * usage.idle_w


@given(placed(), meters())
def test_the_nodes_add_up_to_the_parts(case: Placed, price: StepIntegral) -> None:
    usage = case.powered.usage
    seconds = range(usage.begin_s, usage.until_s)
    by_node = [[node_w(case, node, second) for second in seconds] for node in range(case.powered.node_log.nodes)]
    values = np.array([integral(price, second, second + 1) for second in seconds])
    used, charged = node_energy_and_charge(price, case.powered)
    assert used.total == pytest.approx(np.sum(by_node), abs=1e-6)
    assert charged.total == pytest.approx((np.array(by_node) @ values).sum(), abs=1e-4)


@given(placed())
def test_no_part_is_negative(case: Placed) -> None:
    used = energy(case.powered)
    assert min(used.jobs, used.idle, *used.asleep, used.transitions, used.failed) >= 0
    assert used.total == pytest.approx(used.jobs + used.besides_jobs)


@given(placed(), st.floats(-500, 4000))
def test_at_one_price_money_is_energy_times_price(case: Placed, price: float) -> None:
    used, charged = node_energy_and_charge(integrate_constant(price), case.powered)
    assert charged.jobs == pytest.approx(price * used.jobs, abs=1e-4)
    assert charged.idle == pytest.approx(price * used.idle, abs=1e-4)
    assert charged.asleep == pytest.approx([price * value for value in used.asleep], abs=1e-4)
    assert charged.transitions == pytest.approx(price * used.transitions, abs=1e-4)
    assert charged.failed == pytest.approx(price * used.failed, abs=1e-4)


@given(placed(), meters(), st.data())
def test_two_halves_of_the_period_add_up(case: Placed, price: StepIntegral, data: st.DataObject) -> None:
    usage = case.powered.usage
    cut_s = data.draw(st.integers(usage.begin_s, usage.until_s))
    parts = [
        replace(
            usage,
            start_s=np.clip(usage.start_s, begin_s, until_s),
            end_s=np.clip(usage.end_s, begin_s, until_s),
            begin_s=begin_s,
            until_s=until_s,
        )
        for begin_s, until_s in ((usage.begin_s, cut_s), (cut_s, usage.until_s))
    ]
    whole = node_energy_and_charge(price, case.powered)
    halves = [node_energy_and_charge(price, replace(case.powered, usage=part)) for part in parts]
    for all_of_it, first, second in zip(whole, *halves, strict=True):
        assert first.jobs + second.jobs == pytest.approx(all_of_it.jobs, abs=1e-4)
        assert first.idle + second.idle == pytest.approx(all_of_it.idle, abs=1e-4)
        assert first.transitions + second.transitions == pytest.approx(all_of_it.transitions, abs=1e-4)
        assert first.total + second.total == pytest.approx(all_of_it.total, abs=1e-4)


@given(placed(), meters())
def test_nodes_that_never_sleep_are_todays_accounting(case: Placed, price: StepIntegral) -> None:
    log = case.powered.node_log
    nothing = (np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int8))
    awake = replace(case.powered, node_log=NodeLog(log.nodes, log.units_per_node, *nothing))
    for part, today in zip(node_energy_and_charge(price, awake), energy_and_charge(price, awake.usage), strict=True):
        assert part.jobs == today.jobs
        assert part.idle == pytest.approx(today.idle, rel=1e-12)
        assert part.total == pytest.approx(today.total, rel=1e-12)


@given(placed())
def test_every_node_is_in_one_state_at_a_time(case: Placed) -> None:
    usage, log = case.powered.usage, case.powered.node_log
    times = state_times(ENERGY, log, usage.begin_s, usage.until_s)
    assert times.seconds.sum() == log.nodes * (usage.until_s - usage.begin_s)
    assert times.integral.tolist() == times.seconds.tolist()


@given(st.data())
def test_sleepers_draw_their_share_until_their_enclosure_sleeps(data: st.DataObject) -> None:
    nodes, end_s = 6, 40
    entry = st.tuples(st.integers(0, end_s), st.integers(0, nodes - 1), st.integers(0, STATES - 1))
    entries = sorted(data.draw(st.lists(entry, max_size=25)), key=lambda each: each[0])
    at_s, node, state = np.array(entries, np.int64).reshape(-1, 3).T
    # Nodes 1 and 2 are in an enclosure of three, of which one is elsewhere; nodes 3 to 5 are all of another.
    log = NodeLog(nodes, 1, at_s, node.astype(np.int32), state.astype(np.int8), enclosures=((2, 3), (3, 3)))
    begin_s = data.draw(st.integers(0, end_s))
    now, beside = np.full(nodes, 0), np.zeros(end_s)
    for second in range(end_s):
        for _, which, new in (each for each in entries if each[0] == second):
            now[which] = new
        sleeps = np.isin(now, [asleep(STANDBY), asleep(OFF)])
        beside[second] = sleeps[1:3].sum() + (0 if sleeps[3:].all() else sleeps[3:].sum())
    found = state_times(integrate_constant(3.0), log, begin_s, end_s)
    assert found.beside[0] == beside[begin_s:].sum()
    assert found.beside[1] == pytest.approx(3.0 * found.beside[0])
    server = replace(bundled_node_class("server"), enclosure=EnclosurePower(3, 30.0))
    usage = Usage(
        *(np.empty(0, np.int64),) * 4, machine_size=nodes, idle_w=server.idle_w, begin_s=begin_s, until_s=end_s
    )
    more, less = (
        node_energy_and_charge(ENERGY, PoweredUsage(usage, log, each))[0].total
        for each in (server, replace(server, enclosure=None))
    )
    assert more - less == pytest.approx(10.0 * found.beside[0])


def test_a_known_night() -> None:
    """Of two servers of 2 units one runs a job of one unit; the other is off but for 10 minutes at the end."""
    server = bundled_node_class("server")
    off = server.find_depth(2)
    assert off is not None
    up_s = 3000 - off.leave.duration_s
    at_s = np.array([0, off.enter.duration_s, up_s, 3000])
    states = np.array([going_down(2), asleep(2), coming_up(2), ACTIVE], np.int8)
    log = NodeLog(2, 2, at_s, np.ones(4, np.int32), states)
    one = np.array([1])
    usage = Usage(one, np.array([300.0]), np.array([0]), np.array([3600]), 4, server.idle_w / 2, 0, 3600)
    used = energy(PoweredUsage(usage, log, server))
    assert used.jobs == 300 * 3600
    assert used.idle == server.idle_w / 2 * (3600 + 2 * 600)
    assert used.asleep == (0.0, 0.0, off.power_w * (up_s - off.enter.duration_s))
    assert used.transitions == off.enter.energy_j + off.leave.energy_j
    assert used.failed == 0.0


def test_a_failed_node_draws_on() -> None:
    server = bundled_node_class("server")
    log = NodeLog(1, 1, np.array([10]), np.zeros(1, np.int32), np.array([FAILED], np.int8))
    none = np.empty(0, np.int64)
    used = energy(PoweredUsage(Usage(none, none * 1.0, none, none, 1, server.idle_w, 0, 60), log, server))
    assert (used.idle, used.failed) == (server.idle_w * 10, server.idle_w * 50)


def test_a_machine_is_whole_nodes() -> None:
    none = np.empty(0, np.int64)
    log = NodeLog(3, 8, none, none.astype(np.int32), none.astype(np.int8))
    with pytest.raises(OffpeakError, match="25 units are not the 24 of 3 nodes"):
        PoweredUsage(Usage(none, none * 1.0, none, none, 25, IDLE_W, 0, 60), log, bundled_node_class("server"))
