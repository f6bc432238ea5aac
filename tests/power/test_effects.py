"""Orders through the door, all rules on, to virtual BMCs whose own logs are the witness of what reached them."""

import asyncio
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from guarded_room import ALL_OPEN, OFF, ON, GuardedRoom, guarded_room
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_journal import MemoryJournal

from benchmarks.local_slurm.processes import wait_until
from offpeak.door.door import FRESH_S
from offpeak.door.effect import Effect, Hold, Outcome, Refusal
from offpeak.door.journal import Intent
from offpeak.errors import BadInventory, NoAnswer
from offpeak.model.orders import NodeOrder
from offpeak.power.door.node_orders import reconcile
from offpeak.power.interlocks.preconditions import StateReading
from offpeak.power.interlocks.rate_limits import power_step_of_class
from offpeak.settings.agent import AgentSettings
from offpeak.sim_backend.virtual.node import BmcFaults

SOFT_OFF, POWER_ON = 5, 1


@pytest.fixture
def room(tmp_path: Path) -> Iterator[GuardedRoom]:
    with guarded_room(tmp_path) as room:
        yield room


def refused(answer: Outcome | Refusal) -> tuple[str, str]:
    assert isinstance(answer, Refusal)
    return answer.rule, answer.message


def asleep(room: GuardedRoom, *nodes: str) -> None:
    """Switch nodes off by hand."""
    room.do(lambda each: [each.nodes[node].hard_off() for node in nodes])


def test_a_node_sleeps_and_wakes(room: GuardedRoom) -> None:
    assert room.order(OFF).result == "done"  # type: ignore[union-attr]
    wait_until(lambda: not room.do(lambda each: each.nodes["n1"].powered), what="the shutdown")
    outcome = room.order(ON)
    assert isinstance(outcome, Outcome)
    assert (outcome.result, outcome.message.startswith("accepted by ")) == ("done", True)
    assert room.reported() == {"n1": [SOFT_OFF, POWER_ON]}


def test_the_same_effect_twice_reaches_the_device_once(room: GuardedRoom) -> None:
    room.look()
    orders = room.orders()

    async def twice() -> list[Outcome | Refusal]:
        return await asyncio.gather(orders.order(OFF), orders.order(OFF))

    first, second = room.run(twice())
    assert isinstance(first, Outcome)
    assert refused(second) == ("just_ordered", "n1: was ordered soft_off less than 30 s ago")
    assert room.reported() == {"n1": [SOFT_OFF]}


def test_limits_use_the_injected_clock(room: GuardedRoom) -> None:
    room.look()
    orders = room.orders()
    assert isinstance(room.run(orders.order(ON)), Refusal)
    assert isinstance(room.run(orders.order(OFF)), Outcome)
    room.do(lambda each: each.nodes["n1"].on())
    room.look()
    assert refused(room.run(orders.order(OFF)))[0] == "just_ordered"
    room.passed_s = 31.0
    assert isinstance(room.run(orders.order(OFF)), Outcome)


def test_shadow_refuses_with_the_setting_that_allows_it(room: GuardedRoom) -> None:
    refusal = room.order(replace(OFF, by="admin ada"), AgentSettings(nodes="n[1-6]", min_on=0))
    assert isinstance(refusal, Refusal)
    assert refusal.rule == "mode"
    assert refusal.hint == 'set mode = "advise" below [agent], and what an admin orders is done'
    assert room.reported() == {}


EFFECTS = st.lists(
    st.builds(
        Effect,
        st.sampled_from([f"n{at}" for at in range(1, 7)]),
        st.sampled_from(["on", "soft_off", "hard_off", "standby", "?"]),
        st.sampled_from(["offpeak", "admin ada"]),
        st.text(max_size=3),
        st.sampled_from([(), (("way", "bmc"),), (("way", "wol"),), (("way", "ssh"),), (("way", "?"),)]),
    ),
    max_size=6,
)


NODE_SETS = st.sets(st.sampled_from([f"n{at}" for at in range(1, 7)]), max_size=2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(effects=EFFECTS, lies=st.lists(st.sampled_from(["on", "off", "standby", "going down"]), min_size=6, max_size=6))
def test_shadow_sends_nothing(room: GuardedRoom, effects: list[Effect], lies: list[str]) -> None:
    now = room.clock()
    room.seen.update({f"n{at}": StateReading(state, now) for at, state in enumerate(lies, 1)})
    orders = room.orders(AgentSettings(nodes="n[1-6]", min_on=0), journal=MemoryJournal())

    async def all_at_once() -> list[Outcome | Refusal]:
        return await asyncio.gather(*map(orders.order, effects))

    answers = room.run(all_at_once())
    assert all(isinstance(answer, Refusal) for answer in answers)
    assert room.reported() == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(effects=EFFECTS, jobs=NODE_SETS, held=NODE_SETS, unseen=NODE_SETS)
def test_no_order_cuts_the_power_of_a_node_with_a_job(
    room: GuardedRoom, effects: list[Effect], jobs: set[str], held: set[str], unseen: set[str]
) -> None:
    room.do(lambda each: [(node.on(), each.bmcs[name].orders.clear()) for name, node in each.nodes.items()])
    room.look()
    room.jobs = dict.fromkeys(jobs, "runs 9")
    room.holds.clear()
    room.holds.update(dict.fromkeys(held, Hold("bob", "mine")))
    room.seen.update(dict.fromkeys(unseen, StateReading("unknown", room.clock())))
    orders = room.orders(replace(ALL_OPEN, nodes="n[1-5]", nodes_per_sweep=3), journal=MemoryJournal())

    async def all_at_once() -> list[Outcome | Refusal]:
        return await asyncio.gather(*map(orders.order, effects))

    room.run(all_at_once())
    reported = room.reported()
    assert not {"n6", *held, *unseen} & reported.keys()
    assert all(set(reported.get(node, [])) <= {POWER_ON} for node in jobs)
    assert sum(order != POWER_ON for orders in reported.values() for order in orders) <= 3


def test_a_bmc_that_says_off_does_not_hide_a_job(room: GuardedRoom) -> None:
    room.jobs["n1"] = "runs 4711"
    assert refused(room.order(OFF)) == ("no_job_now", "n1: runs 4711")
    # Its power is cut behind the scheduler's back; whatever the BMC says, nothing is taken from a node with a job.
    asleep(room, "n1")
    assert refused(room.order(OFF))[0] == "observed_fresh"
    room.seen["n1"] = StateReading("going down", room.clock())
    assert refused(room.run(room.orders().order(replace(OFF, order=NodeOrder.HARD_OFF)))) == (
        "no_job_now",
        "n1: runs 4711",
    )
    assert room.reported() == {}


def test_a_job_that_starts_while_the_rules_are_queried_is_seen(room: GuardedRoom) -> None:
    """The scheduler's word is the last that is waited for."""
    room.look()
    slow = BmcFaults(delay_s=1.5)
    room.do(lambda each: setattr(each.bmcs["n1"], "faults", slow))

    async def job_starts_meanwhile() -> Outcome | Refusal:
        task = asyncio.ensure_future(room.orders().order(OFF))
        await asyncio.sleep(0.1)
        room.jobs["n1"] = "runs 8"
        return await task

    assert refused(room.run(job_starts_meanwhile())) == ("no_job_now", "n1: runs 8")
    assert room.reported() == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    login_s=st.sampled_from([0.0, 0.01, 0.05]),
    answers_s=st.lists(st.sampled_from([0.0, 0.01, 2.5]), max_size=3),
    writes_s=st.lists(st.sampled_from([0.0, 6.0]), max_size=1),
    starts=st.integers(0, 8),
    closed=st.booleans(),
)
def test_a_job_that_starts_at_any_moment_keeps_its_node(
    room: GuardedRoom, login_s: float, answers_s: list[float], writes_s: list[float], starts: int, closed: bool
) -> None:
    """A job may start at every point where something is waited for; on a closed node none can.

    Slow answers and a locked ledger let the door's clock go on. A node may be told to go down only if no job had
    started within the last question's age.
    """
    room.do(lambda each: [(node.on(), each.bmcs[name].orders.clear()) for name, node in each.nodes.items()])
    room.look()
    room.run(room.wire.close())
    room.do(lambda each: setattr(each.bmcs["n1"], "faults", BmcFaults(delay_s=login_s)))
    answers_s, writes_s, slow = list(answers_s), list(writes_s), any(answer_s > FRESH_S for answer_s in answers_s)
    points, started_s, now_s = iter(range(100)), list[float](), [0.0]

    def pass_point() -> None:
        if next(points) == starts and not closed:
            started_s.append(now_s[0])

    def in_use(_node: str) -> str:
        pass_point()
        reply = "runs 8" if started_s else ""
        now_s[0] += answers_s.pop(0) if answers_s else 0.0
        pass_point()
        return reply

    class Locked(MemoryJournal):
        def write_intent(self, effect: Effect, at_unix_s: float) -> int:
            pass_point()
            now_s[0] += writes_s.pop(0) if writes_s else 0.0
            pass_point()
            return super().write_intent(effect, at_unix_s)

    journal = Locked()
    room.in_use, steady = in_use, room.steady
    room.steady = lambda: now_s[0]
    try:
        answer = room.run(room.orders(journal=journal).order(OFF))
    finally:
        room.in_use, room.steady = None, steady
    reported = room.reported()
    assert not reported or (isinstance(answer, Outcome) and answer.result == "done")
    assert not reported or not started_s or now_s[0] - started_s[0] <= FRESH_S
    assert journal.unfinished() == ()
    if isinstance(answer, Refusal) and closed and not slow:
        # The node may still follow the order of the example before.
        assert answer.rule == "observed_fresh"


def test_no_login_comes_between_the_answer_and_the_order(
    room: GuardedRoom,
) -> None:
    """A session ends while the scheduler answers: nothing logs in after the answer, all is asked again."""
    room.look()
    times = []

    def in_use(_node: str) -> str:
        times.append(time.monotonic())
        if len(times) == 1:
            for held in room.wire.sessions._held.values():
                held.session = None
        return ""

    room.in_use = in_use
    answer = room.run(room.orders().order(OFF))
    assert isinstance(answer, Outcome)
    assert (len(times), room.reported()) == (2, {"n1": [SOFT_OFF]})


def test_a_hold_that_comes_while_the_rules_are_queried_holds(room: GuardedRoom) -> None:
    room.look()
    room.do(lambda each: setattr(each.bmcs["n1"], "faults", BmcFaults(delay_s=1.5)))

    async def held_meanwhile() -> Outcome | Refusal:
        task = asyncio.ensure_future(room.orders().order(OFF))
        await asyncio.sleep(0.1)
        room.holds["n1"] = Hold("ada", "fan")
        return await task

    assert refused(room.run(held_meanwhile())) == ("held", "n1: ada holds it: fan")
    assert room.reported() == {}


def test_a_bmc_that_is_another_since_the_decision_gets_no_order(room: GuardedRoom) -> None:
    room.look()
    other = UUID(int=7)
    room.do(lambda each: setattr(each.bmcs["n1"], "faults", BmcFaults(guid=other)))
    for effect in (OFF, replace(OFF, order=NodeOrder.HARD_OFF)):
        rule, reply = refused(room.run(room.orders().order(effect)))
        assert rule == "identity"
        assert "was enrolled on 2026-11-21" in reply
    assert room.reported() == {}


def test_a_silent_bmc_is_not_acted_on(room: GuardedRoom) -> None:
    room.look()
    room.do(lambda each: setattr(each.bmcs["n1"], "faults", BmcFaults(silent=True)))
    assert refused(room.run(room.orders().order(OFF)))[0] == "identity"
    room.look()
    assert refused(room.run(room.orders().order(OFF))) == ("observed_fresh", "n1: its state is not known")
    assert refused(room.run(room.orders().order(ON))) == ("observed_fresh", "n1: its state is not known")
    assert room.reported() == {}


def test_stale_state_is_not_acted_on(room: GuardedRoom) -> None:
    began_s = time.monotonic()
    room.look()
    room.late_s = 121.0
    rule, reply = refused(room.run(room.orders().order(OFF)))
    age = re.fullmatch(r"n1: its state was read (\d+) s ago", reply)
    assert rule == "observed_fresh"
    assert age
    assert 121 <= int(age[1]) <= 122 + time.monotonic() - began_s  # said to the nearest second
    room.late_s = -3600.0
    assert refused(room.run(room.orders().order(OFF)))[0] == "observed_fresh"
    assert room.reported() == {}


def test_nodes_that_nobody_named_are_left_alone(room: GuardedRoom) -> None:
    assert refused(room.order(OFF, replace(ALL_OPEN, nodes=None)))[0] == "opted_in"
    assert refused(room.order(OFF, replace(ALL_OPEN, nodes="n[2-6]")))[0] == "opted_in"
    with pytest.raises(BadInventory, match="has no node n7"):
        room.orders(replace(ALL_OPEN, nodes="n7"))
    assert room.reported() == {}


def test_so_many_stay_on_however_many_are_ordered_at_once(room: GuardedRoom) -> None:
    room.look()
    orders = room.orders(replace(ALL_OPEN, min_on=4))

    async def all_at_once() -> list[Outcome | Refusal]:
        return await asyncio.gather(*(orders.order(replace(OFF, subject=f"n{at}")) for at in range(1, 7)))

    answers = room.run(all_at_once())
    assert [answer.rule for answer in answers if isinstance(answer, Refusal)] == ["min_on"] * 4
    assert sum(map(len, room.reported().values())) == 2


def test_a_restart_does_not_reset_the_caps(room: GuardedRoom) -> None:
    few = replace(ALL_OPEN, nodes_per_hour=2)
    for at in (1, 2):
        assert room.order(replace(OFF, subject=f"n{at}"), few).result == "done"  # type: ignore[union-attr]
    assert refused(room.order(replace(OFF, subject="n3"), few))[0] == "per_hour"
    assert room.reported() == {"n1": [SOFT_OFF], "n2": [SOFT_OFF]}


def test_wakes_are_staggered_by_their_draw(room: GuardedRoom) -> None:
    asleep(room, *(f"n{at}" for at in range(1, 7)))
    room.look()
    orders = room.orders(replace(ALL_OPEN, wake_ramp_w=700.0, min_on=6))

    async def all_at_once() -> list[Outcome | Refusal]:
        return await asyncio.gather(*(orders.order(replace(ON, subject=f"n{at}")) for at in range(1, 7)))

    answers = room.run(all_at_once())
    assert {answer.rule for answer in answers if isinstance(answer, Refusal)} == {"wake_ramp"}
    assert len(room.reported()) == 700 // power_step_of_class(room.served.plan.node_class).rise_w


def test_wakes_are_bounded_without_racks_and_watts(room: GuardedRoom) -> None:
    asleep(room, *(f"n{at}" for at in range(1, 7)))
    room.look()
    orders = room.orders(replace(ALL_OPEN, wakes_per_min=12, min_on=6))

    async def all_at_once() -> list[Outcome | Refusal]:
        return await asyncio.gather(*(orders.order(replace(ON, subject=f"n{at}")) for at in range(1, 7)))

    answers = room.run(all_at_once())
    assert [answer.rule for answer in answers if isinstance(answer, Refusal)] == ["wakes"] * 4
    assert len(room.reported()) == 2


def test_many_failures_open_the_breaker(room: GuardedRoom) -> None:
    """BMCs that fall silent after they said who they are: the order itself fails."""
    room.look()
    orders = room.orders(replace(ALL_OPEN, breaker_failures=2))

    async def fails() -> str:
        raise NoAnswer("bmc: silent")

    async def three() -> list[Outcome | Refusal]:
        return [await orders.door.let_through(replace(OFF, subject=f"n{at}"), fails) for at in (1, 2, 3)]

    first, second, third = room.run(three())
    assert (first, second) == (Outcome("failed", "bmc: silent", "NoAnswer"),) * 2
    rule, reply = refused(third)
    assert rule == "breaker"
    assert "too many orders failed, the last: bmc: silent; one order is tried in 900 s" in reply
    # So it is after a restart, for a healthy node too; an admin who has looked closes it.
    again = room.orders(replace(ALL_OPEN, breaker_failures=2))
    assert refused(room.run(again.order(replace(OFF, subject="n4"))))[0] == "breaker"
    assert room.reported() == {}
    assert isinstance(room.run(again.order(replace(OFF, subject="n4", by="admin ada"))), Outcome)
    assert isinstance(room.run(again.order(replace(OFF, subject="n5"))), Outcome)


def test_a_refused_login_is_not_used_again(room: GuardedRoom) -> None:
    room.look()
    password = Path(room.inventory.path).with_name("bmc.password")
    password.write_text("another\n")
    orders = room.orders()
    begun = room.do(lambda each: sum(bmc.logins.begun for bmc in each.bmcs.values()))
    room.run(room.wire.close())

    async def three() -> list[Outcome | Refusal]:
        return [await orders.order(replace(OFF, subject=f"n{at}")) for at in (1, 2, 3)]

    answers = room.run(three())
    assert [refused(answer)[0] for answer in answers] == ["identity", "refused_login", "refused_login"]
    assert isinstance(answers[0], Refusal)
    assert answers[0].error_kind == "AccessRefused"
    assert room.do(lambda each: sum(bmc.logins.begun for bmc in each.bmcs.values())) - begun <= 2
    assert room.reported() == {}


def test_after_a_crash_nothing_is_sent_again_blind(room: GuardedRoom) -> None:
    journal = MemoryJournal()
    for node in ("n1", "n2", "n3"):
        journal.write_intent(replace(OFF, subject=node), time.time())
    asleep(room, "n1")
    room.do(lambda each: setattr(each.bmcs["n3"], "faults", BmcFaults(silent=True)))

    async def look_at(node: str) -> StateReading:
        observed = await room.ways.bmc_of(node).query()
        return StateReading(observed.state, observed.at_unix_s)

    ends: tuple[tuple[Intent, Outcome], ...] = room.run(reconcile(journal, look_at, room.clock))
    assert [(intent.effect.subject, outcome.result, outcome.message) for intent, outcome in ends] == [
        ("n1", "interrupted", "found off after a restart"),
        ("n2", "interrupted", "found on after a restart"),
        ("n3", "interrupted", "found in an unknown state after a restart"),
    ]
    assert journal.unfinished() == ()
    assert room.run(reconcile(journal, look_at, room.clock)) == ()
    assert room.reported() == {}
