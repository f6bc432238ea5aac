"""Every combination of what the scheduler says, what the BMC says and what is wanted."""

from dataclasses import replace
from itertools import product

import pytest
from scheduler_values import NOW, NOW_S, node_of, record_of

from offpeak.door.effect import AGENT, SCHEDULER, Hold
from offpeak.model.node_states import FAILED
from offpeak.model.orders import NodeChange, NodeOrder, NodeState, PowerState
from offpeak.plugin.scheduler.node import NodeUse, SchedulerState, scheduler_states
from offpeak.power.lifecycle.node_record import DesiredState, Fault, ObservedState, SentOrder
from offpeak.power.live.observe import BOOTING, observe_node
from offpeak.power.live.steps import choose_next_step

pytestmark = pytest.mark.quick


def next_step(node, record, **given):
    """Return the next step of a node that may be switched."""
    return choose_next_step(observe_node(node, record, NOW, switchable=True), NOW, **given)


OURS = {"closed": True, "reason": "offpeak: idle"}
THEIRS = {"closed": True, "reason": "new DIMM", "reason_by": "jo"}
CLOSINGS = ({}, OURS, THEIRS)
FLAGS = ("failed", "responds", "reserved", "planned")
ALL_NODES = [
    node_of(use=use, power=power, **closed, **dict(zip(FLAGS, flags, strict=True)))
    for use, power, closed, flags in product(
        NodeUse, PowerState, CLOSINGS, list(product((False, True), repeat=len(FLAGS)))
    )
]


@pytest.mark.parametrize("state", NodeState)
def test_no_step_takes_power_from_a_job_or_undoes_changes_of_others(state) -> None:
    record = record_of(state=state)
    for node, to_sleep in product(ALL_NODES, (False, True)):
        step = next_step(node, record, to_sleep=to_sleep)
        down = step.order in (NodeOrder.SOFT_OFF, NodeOrder.STANDBY)
        assert not (down and node.use is not NodeUse.FREE)
        assert not (step.change is NodeChange.CLOSE and node.use is not NodeUse.FREE)
        assert not (step.change is NodeChange.POWER_DOWN and node.use is NodeUse.USED)
        assert not (step.change is NodeChange.CLOSE and (node.closed or node.reserved))
        assert not (step.change and node.closed and not node.closed_by_us)
        assert not (step.change is NodeChange.POWER_DOWN and state not in (NodeState.OFF, NodeState.STANDBY))
        assert not (down and not node.closed and state is NodeState.ON)
        if state is NodeState.UNKNOWN or node.use is NodeUse.UNKNOWN:
            assert (step.order, step.change) == (None, None)
        assert step.why


def test_states_of_all_nodes() -> None:
    for node in ALL_NODES:
        state = node.scheduler_state
        assert (state is None) == (node.use is NodeUse.UNKNOWN)
        assert not (state is SchedulerState.BUSY and node.use is not NodeUse.USED)
    assert scheduler_states([node_of("a"), node_of("b", use=NodeUse.UNKNOWN)]) == {"a": SchedulerState.UP}


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({}, SchedulerState.UP),
        (OURS, SchedulerState.DRAINED),
        ({"use": NodeUse.USED}, SchedulerState.BUSY),
        ({"use": NodeUse.USED, "power": PowerState.POWERING_ON}, SchedulerState.BOOTS),
        ({"use": NodeUse.USED, "power": PowerState.OFF}, SchedulerState.BOOTS),
        ({"power": PowerState.OFF}, SchedulerState.DOWN),
        ({"failed": True}, SchedulerState.DOWN),
    ],
)
def test_the_state_of_a_node(given, state) -> None:
    assert node_of(**given).scheduler_state is state


DOWN, ON, OFF = PowerState.OFF, NodeState.ON, NodeState.OFF


@pytest.mark.parametrize(
    ("given", "state", "to_sleep", "order", "change"),
    [
        # To sleep, step by step.
        ({}, ON, True, None, NodeChange.CLOSE),
        (OURS, ON, True, NodeOrder.SOFT_OFF, None),
        (OURS, NodeState.GOING_DOWN, True, NodeOrder.SOFT_OFF, None),
        (OURS, OFF, True, NodeOrder.SOFT_OFF, NodeChange.POWER_DOWN),
        (OURS | {"failed": True}, OFF, True, NodeOrder.SOFT_OFF, NodeChange.POWER_DOWN),
        (OURS | {"power": PowerState.POWERING_OFF}, OFF, True, NodeOrder.SOFT_OFF, None),
        (OURS | {"power": DOWN, "failed": True}, OFF, True, NodeOrder.SOFT_OFF, NodeChange.RESUME),
        (OURS | {"power": DOWN}, OFF, True, NodeOrder.SOFT_OFF, NodeChange.OPEN),
        ({"power": DOWN}, OFF, True, NodeOrder.SOFT_OFF, None),
        # To wake.
        ({"power": DOWN}, OFF, False, NodeOrder.SOFT_OFF, NodeChange.POWER_UP),
        ({"power": PowerState.POWERING_OFF}, OFF, False, NodeOrder.SOFT_OFF, None),
        ({"power": PowerState.POWERING_ON}, OFF, True, NodeOrder.ON, None),
        ({"power": DOWN, "use": NodeUse.USED}, OFF, True, NodeOrder.ON, None),
        ({}, ON, False, None, None),
        # Half-way states.
        (OURS, ON, False, None, NodeChange.OPEN),
        (OURS | {"use": NodeUse.USED}, ON, True, None, NodeChange.OPEN),
        (OURS | {"power": PowerState.POWERING_ON}, OFF, False, NodeOrder.ON, NodeChange.OPEN),
        ({"power": DOWN}, ON, False, None, NodeChange.CLOSE),
        (OURS | {"power": DOWN}, ON, False, NodeOrder.SOFT_OFF, None),
        ({}, OFF, False, None, NodeChange.CLOSE),
        # Failures and others' nodes.
        ({"failed": True, "power": DOWN}, OFF, False, None, None),
        (
            {"failed": True, "power": DOWN, "reason": "offpeak: it is off"},
            OFF,
            True,
            NodeOrder.SOFT_OFF,
            NodeChange.RESUME,
        ),
        (
            {"failed": True, "power": PowerState.POWERING_OFF, "reason": "offpeak: it is off"},
            OFF,
            True,
            NodeOrder.SOFT_OFF,
            None,
        ),
        ({"failed": True, "power": DOWN}, ON, False, None, NodeChange.RESUME),
        ({"failed": True}, ON, True, None, None),
        ({"failed": True}, OFF, False, None, None),
        # A scheduler that was killed has forgotten that we closed it.
        ({"failed": True, "responds": False}, OFF, False, None, NodeChange.CLOSE),
        ({"failed": True, "responds": False}, ON, False, None, None),
        (THEIRS, ON, True, None, None),
        (THEIRS | {"power": PowerState.ON_REQUESTED}, OFF, True, NodeOrder.ON, None),
    ],
)
def test_the_next_step(given, state, to_sleep, order, change) -> None:
    step = next_step(node_of(**given), record_of(state=state), to_sleep=to_sleep)
    assert (step.order, step.change) == (order, change), step.why
    assert order is not NodeOrder.ON or step.by == SCHEDULER


def test_a_node_that_somebody_has_just_switched_on_is_not_drained_in_its_boot() -> None:
    """slurmctld clears the reason of a drain when such a node registers, and nobody would open it again."""
    up = record_of(state=ON)
    switched_on = replace(up, observed=replace(up.observed, since_unix_s=NOW.unix_s - 590))
    step = next_step(node_of(power=DOWN), switched_on, to_sleep=True)
    assert (step.order, step.change) == (None, None)
    assert "may still boot" in step.why


@pytest.mark.parametrize(
    ("given", "state", "change"),
    [
        ({}, ON, NodeChange.CLOSE),
        ({"use": NodeUse.USED}, ON, NodeChange.CLOSE),
        (OURS, ON, None),
        (OURS | {"use": NodeUse.USED}, ON, None),
        (THEIRS, ON, None),
        ({"reserved": True}, ON, None),
        ({"failed": True}, ON, None),
        ({"power": DOWN}, ON, None),
        ({}, NodeState.BOOTING, None),
        # It is there: from now on it is as if we had wanted it.
        (OURS, OFF, NodeChange.POWER_DOWN),
    ],
)
def test_a_node_that_an_admin_orders_to_sleep_is_closed_and_stays_so(given, state, change) -> None:
    record = record_of(state=state, desired=DesiredState(NodeOrder.SOFT_OFF, "admin jo", float(NOW_S), "a quiet night"))
    step = next_step(node_of(**given), record, to_sleep=False)
    assert (step.change, step.order) == (change, NodeOrder.SOFT_OFF if state is OFF else None), step.why


BY_ADMIN = DesiredState(NodeOrder.ON, "admin jo", float(NOW_S), "it stays up")


@pytest.mark.parametrize(
    ("ago_s", "given", "boot_s", "change"),
    [
        (20, {}, None, None),
        # A shutdown may be delayed for longer than any limit.
        (4000, {}, None, None),
        (4000, {}, NOW_S - 5000, None),
        (4000, {}, NOW_S - 3000, NodeChange.OPEN),
        # The clock was set back by an hour since the scheduler noted the boot, or forward since the order.
        (4000, {}, NOW_S + 100, None),
        (4000, {"at_unix_s": NOW_S - 7600.0}, NOW_S - 7000, None),
        (4000, {"at_unix_s": NOW_S - 400.0}, NOW_S - 3000, None),
        # Who wakes a node at once may not know of the order.
        (20, {"desired": BY_ADMIN}, None, None),
        (4000, {"desired": BY_ADMIN}, None, NodeChange.OPEN),
    ],
)
def test_no_job_is_let_in_while_an_order_to_sleep_may_still_be_followed(ago_s, given, boot_s, change) -> None:
    at_unix_s, desired = given.get("at_unix_s", NOW_S - ago_s), given.get("desired")
    sent = SentOrder(NodeOrder.SOFT_OFF, AGENT, NOW.monotonic_s - ago_s, ON, clear=False, at_unix_s=at_unix_s)
    record = record_of(sent=sent, desired=desired)
    step = next_step(node_of(**OURS, boot_s=boot_s), record, to_sleep=False)
    # Without evidence the order is given again.
    again = None if change or desired else NodeOrder.SOFT_OFF
    assert (step.change, step.order) == (change, again), step.why


def test_our_reason_at_a_node_that_sleeps_and_counts_as_down_says_who_ordered_its_sleep() -> None:
    record = record_of(observed=replace(record_of(state=OFF).observed, by="unknown"))
    down = {"failed": True, "power": DOWN, "reason": "offpeak: it is off"}
    assert next_step(node_of(**down), record, to_sleep=True).change is NodeChange.RESUME
    silent = {"failed": True, "responds": False}
    assert next_step(node_of(**silent), record, to_sleep=False).change is None


def test_a_node_that_a_server_of_pbs_has_opened_in_its_shutdown_is_closed_again() -> None:
    sent = SentOrder(NodeOrder.SOFT_OFF, AGENT, NOW.monotonic_s - 4000, ON, clear=False)
    opened = {"closed": False, "reason": "offpeak: idle"}
    assert next_step(node_of(**opened), record_of(sent=sent), to_sleep=False).change is NodeChange.CLOSE
    # Without an order only our mark is left, which would keep the agent from starting a cycle for its jobs.
    assert next_step(node_of(**opened), record_of(), to_sleep=False).change is NodeChange.OPEN
    assert next_step(node_of(closed=False), record_of(), to_sleep=False).change is None
    assert next_step(node_of(), record_of(sent=sent), to_sleep=False).change is None
    just_now = replace(sent, at_s=NOW.monotonic_s - 20, at_unix_s=NOW.unix_s - 20)
    assert next_step(node_of(), record_of(sent=just_now), to_sleep=False).change is NodeChange.CLOSE


def test_a_node_that_says_that_it_shuts_down_is_closed_whoever_opened_it() -> None:
    """A slurmctld that begins without its state has no drained nodes; a shutdown may be inhibited for half an hour."""
    sent = SentOrder(NodeOrder.SOFT_OFF, AGENT, NOW.monotonic_s - 700, ON, clear=False, at_unix_s=NOW.unix_s - 700)
    goes_down = record_of(observed=ObservedState(ON, goes_down=True), sent=sent)
    observed = observe_node(node_of(), goes_down, NOW, switchable=True)
    assert observed.may_still_go_down
    assert not observed.was_opened
    assert next_step(node_of(), goes_down, to_sleep=False).change is NodeChange.CLOSE
    stays = replace(goes_down, observed=ObservedState(ON))
    assert observe_node(node_of(), stays, NOW, switchable=True).was_opened


def test_jobs_do_not_count_on_a_node_that_does_not_go_down() -> None:
    sent = SentOrder(NodeOrder.SOFT_OFF, AGENT, NOW.monotonic_s - 4000, ON, clear=False)
    fault = Fault("does not go down", "soft_off was not followed within 600 s", "", False, float(NOW_S))
    assert observe_node(node_of(**OURS), record_of(sent=sent, fault=fault), NOW, switchable=True).state == FAILED


@pytest.mark.parametrize(
    ("power", "state", "change"),
    [
        (PowerState.OFF, OFF, NodeChange.POWER_UP),
        # The boot has begun: a scheduler that waits for a fresh one would wait in vain.
        (PowerState.OFF, NodeState.BOOTING, None),
        (PowerState.POWERING_OFF, OFF, None),
        (PowerState.ON, OFF, None),
    ],
)
def test_the_scheduler_is_informed_of_a_node_that_an_admin_wakes(power, state, change) -> None:
    record = record_of(state=state, desired=DesiredState(NodeOrder.ON, "admin jo", float(NOW_S), "morning"))
    assert next_step(node_of(power=power), record, to_sleep=True).change is change


@pytest.mark.parametrize(
    "given",
    [
        {"hold": Hold("jo", "new DIMM")},
        {"desired": DesiredState(NodeOrder.ON, "admin jo", float(NOW_S), "to look at it")},
        {"paused_until_s": NOW.monotonic_s + 60},
    ],
)
@pytest.mark.parametrize("to_sleep", [False, True])
def test_node_held_ordered_or_paused_by_an_admin_is_left_alone(given, to_sleep) -> None:
    record = record_of(state=OFF, **given)
    for power in (PowerState.ON, PowerState.POWERING_OFF):
        step = next_step(node_of(power=power, **OURS), record, to_sleep=to_sleep)
        assert (step.order, step.change) == (None, None)


@pytest.mark.parametrize(
    ("given", "change"),
    [
        ({"hold": Hold("jo", "new DIMM")}, NodeChange.OPEN),
        ({"desired": DesiredState(NodeOrder.ON, "admin jo", float(NOW_S), "to look at it")}, NodeChange.POWER_UP),
        ({"paused_until_s": NOW.monotonic_s + 60}, None),
    ],
)
def test_a_sleeping_node_that_is_closed_to_jobs_is_an_admins_again_after_a_hold_or_an_order(given, change) -> None:
    record = record_of(state=OFF, **given)
    step = next_step(node_of(power=PowerState.OFF, **OURS), record, to_sleep=True, withdrawn="capacity: 1 of 4 nodes")
    assert (step.order, step.change) == (None, change)


@pytest.mark.parametrize(
    ("given", "state", "to_sleep", "change"),
    [
        ({}, ON, False, NodeChange.WITHDRAW),
        ({"use": NodeUse.USED}, ON, False, NodeChange.WITHDRAW),
        (OURS | {"use": NodeUse.USED}, ON, False, None),
        (OURS, ON, False, None),
        ({"power": DOWN}, OFF, True, NodeChange.WITHDRAW),
        ({"power": PowerState.POWERING_OFF}, OFF, True, NodeChange.WITHDRAW),
        ({"power": PowerState.POWERING_OFF}, NodeState.GOING_DOWN, True, None),
        (OURS | {"power": DOWN}, OFF, True, None),
        (OURS | {"power": DOWN}, OFF, False, NodeChange.POWER_UP),
        (OURS | {"power": PowerState.POWERING_ON}, NodeState.BOOTING, False, NodeChange.OPEN),
        (THEIRS, ON, False, None),
        (THEIRS | {"power": DOWN}, OFF, True, None),
    ],
)
def test_a_withdrawn_node_is_closed_and_stays_so(given, state, to_sleep, change) -> None:
    step = next_step(node_of(**given), record_of(state=state), to_sleep=to_sleep, withdrawn="capacity: 1 of 4 nodes")
    assert step.change is change, step.why


def test_a_hold_keeps_no_node_closed_for_a_sleep_that_is_called_off() -> None:
    held, sent = (
        Hold("jo", "a benchmark"),
        SentOrder(NodeOrder.SOFT_OFF, "offpeak", NOW.monotonic_s - 60, ON, clear=False),
    )
    for to_sleep in (False, True):
        step = next_step(node_of(**OURS), record_of(hold=held), to_sleep=to_sleep)
        assert (step.order, step.change) == (None, NodeChange.OPEN)
        # What it may still follow, or an admin has ordered, or others have closed, stays closed.
        ordered = DesiredState(NodeOrder.SOFT_OFF, "admin jo", float(NOW_S), "by hand")
        for record in (record_of(hold=held, sent=sent), record_of(hold=held, desired=ordered)):
            assert next_step(node_of(**OURS), record, to_sleep=to_sleep).change is None
        assert next_step(node_of(**THEIRS), record_of(hold=held), to_sleep=to_sleep).change is None
        assert next_step(node_of(), record_of(hold=held), to_sleep=to_sleep).change is None


LACKS_GPU = record_of(observed=ObservedState(NodeState.BOOTING, float(NOW_S), 5000.0, problem="3 of its 4 GPUs answer"))


def test_a_node_that_lacks_a_gpu_gets_no_job_until_an_admin_opens_it() -> None:
    why = LACKS_GPU.observed.problem
    step = next_step(node_of(use=NodeUse.USED), LACKS_GPU, to_sleep=False, withdrawn=why)
    assert (step.order, step.change, step.why) == (None, NodeChange.WITHDRAW, why)
    closed = next_step(node_of(**OURS), LACKS_GPU, to_sleep=True, withdrawn=why)
    assert (closed.order, closed.change) == (None, None)
    up = replace(LACKS_GPU, observed=replace(LACKS_GPU.observed, state=NodeState.ON, problem=""))
    assert next_step(node_of(**OURS), up, to_sleep=False).change is NodeChange.OPEN
    # The plan counts on a node whose GPUs may still come, and not on one that was given up.
    faulty = replace(LACKS_GPU, fault=Fault("does not come up", why, "", False, 0.0))
    assert observe_node(node_of(), LACKS_GPU, NOW, switchable=True).state == BOOTING
    assert observe_node(node_of(), faulty, NOW, switchable=True).state == FAILED
