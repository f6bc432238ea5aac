"""Derives the state of a node from one poll: the BMC's answer, the pending order, the node's answer, its power."""

from plugin.scheduler.node import SchedulerState
from power.drivers.port import Order, PowerState
from power.lifecycle.node_context import NodeContext
from power.lifecycle.node_record import NodeObservation, NodeRecord, NodeState

STANDBY_POLLS = 3
"""So many looks one after the other a node must be silent, and below its ceiling, to be taken as in standby."""

OFF_WITH_JOB = "the BMC says that it is off, the scheduler that a job runs there"
OFF_BUT_ANSWERS = "the BMC says that it is off, but the node answers"
OFF_BUT_DRAWS = "the BMC says that it is off, but it draws more than in standby"
NO_EVIDENCE = "neither by ssh nor by its power can be told whether it is in standby"


def determine_state(life: NodeRecord, look: NodeObservation, terms: NodeContext) -> tuple[NodeState, str]:
    """Return the state, and the trouble where it is UNKNOWN: also where two who must know contradict each other."""
    if look.power is PowerState.UNKNOWN:
        return NodeState.UNKNOWN, str(look.trouble or "no answer")
    if look.power is PowerState.OFF and (look.answers or life.word is SchedulerState.BUSY):
        return NodeState.UNKNOWN, OFF_BUT_ANSWERS if look.answers else OFF_WITH_JOB
    if may_be_in_standby(life):
        return _in_standby(life, look, terms)
    return (NodeState.OFF if look.power is PowerState.OFF else _when_on(life, look)), ""


def count_silent_polls(life: NodeRecord, look: NodeObservation, terms: NodeContext) -> int:
    """Return how many looks in a row, with this one, have shown nothing but standby."""
    silent = look.answers is False and _draws_little(look, terms) is not False
    return min(life.seen.silent_in_row + 1, STANDBY_POLLS) if silent else 0


def may_be_in_standby(life: NodeRecord) -> bool:
    """Whether its BMC alone cannot tell its state: it is in standby, or on its way there or back."""
    return life.seen.known is NodeState.STANDBY or (life.sent is not None and life.sent.order is Order.STANDBY)


def needs_evidence(life: NodeRecord) -> bool:
    """Whether the node itself is to be asked: it may be in standby, or is to come up."""
    return may_be_in_standby(life) or (life.sent is not None and life.sent.order is Order.ON)


def _in_standby(life: NodeRecord, look: NodeObservation, terms: NodeContext) -> tuple[NodeState, str]:
    slept, little = life.seen.known is NodeState.STANDBY, _draws_little(look, terms)
    if look.answers:
        return _when_on(life, look), ""
    if little is False:
        return _restless(life, look)
    if look.power is PowerState.OFF or count_silent_polls(life, look, terms) >= STANDBY_POLLS:
        return NodeState.STANDBY, ""
    if not slept:
        return _when_on(life, look), ""
    return (NodeState.UNKNOWN, NO_EVIDENCE) if little is None and look.answers is None else (NodeState.STANDBY, "")


def _restless(life: NodeRecord, look: NodeObservation) -> tuple[NodeState, str]:
    """Return the state of a node that is silent and draws too much for standby."""
    if life.seen.known is NodeState.STANDBY:
        return NodeState.BOOTING, ""
    if look.power is PowerState.OFF and life.effort.course is None:
        return NodeState.UNKNOWN, OFF_BUT_DRAWS
    return _when_on(life, look), ""


def _when_on(life: NodeRecord, look: NodeObservation) -> NodeState:
    course = life.effort.course
    if course is not None and course.order is not Order.ON:
        return NodeState.GOING_DOWN
    # An order to wake stays until it is followed: a node that hangs in its boot is not up because we stopped waiting.
    comes = (life.sent is not None and life.sent.order is Order.ON) or life.word is SchedulerState.BOOTS
    return NodeState.BOOTING if comes and not _is_up(life, look) else NodeState.ON


def _is_up(life: NodeRecord, look: NodeObservation) -> bool:
    if look.answers is not None:
        return look.answers
    return life.word not in (SchedulerState.BOOTS, SchedulerState.DOWN)


def _draws_little(look: NodeObservation, terms: NodeContext) -> bool | None:
    """Whether it draws no more than in standby, None if that cannot be told."""
    rung = terms.hardware.rung("standby")
    if look.watts is None or rung is None or rung.ceiling_w is None:
        return None
    return look.watts <= rung.ceiling_w
