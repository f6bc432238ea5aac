"""Derives the state of a node from one poll: the BMC's answer, the pending order, the node's answer, its power."""

from offpeak.door.effect import ADMIN
from offpeak.model.orders import NodeOrder, NodeState, PowerState
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.power.lifecycle.node_context import NodeContext
from offpeak.power.lifecycle.node_record import NodeObservation, NodeRecord

STANDBY_POLLS = 3
"""After so many consecutive polls in which it is silent and below its ceiling, a node counts as in standby."""

OFF_WITH_JOB = "the BMC reports that it is off, the scheduler that a job runs there"
OFF_BUT_ANSWERS = "the BMC reports that it is off, but the node answers"
OFF_BUT_DRAWS = "the BMC reports that it is off, but it draws more than in standby"
NO_EVIDENCE = "neither ssh nor its power shows whether it is in standby"


def determine_state(record: NodeRecord, observation: NodeObservation, context: NodeContext) -> tuple[NodeState, str]:
    """Return the state, and the error where it is UNKNOWN: also if sources contradict each other.

    A node that answers, and lacks a GPU, is BOOTING with that error.
    """
    if observation.power not in (PowerState.ON, PowerState.OFF):
        return NodeState.UNKNOWN, str(observation.problem or "no answer")
    if observation.power is PowerState.OFF and (observation.answers or record.scheduler_state is SchedulerState.BUSY):
        return NodeState.UNKNOWN, OFF_BUT_ANSWERS if observation.answers else OFF_WITH_JOB
    if may_be_in_standby(record):
        state, error = _in_standby(record, observation, context)
    elif observation.power is PowerState.OFF:
        return NodeState.OFF, ""
    else:
        state, error = _when_on(record, observation, context), ""
    is_up = state is NodeState.BOOTING and _answers(record, observation)
    return state, find_missing_gpus(record, observation, context) if is_up else error


def find_missing_gpus(record: NodeRecord, observation: NodeObservation, context: NodeContext) -> str:
    """Return how many of the node's GPUs do not answer, "" if all do; a node that an admin wakes is taken as it is."""
    gpus, declared = observation.gpus, context.hardware.gpus
    by_admin = record.desired is not None and record.desired.by.startswith(ADMIN)
    if not declared or by_admin or (gpus is not None and gpus >= declared):
        return ""
    if gpus is None:
        return f"how many of its {declared} GPUs answer is not known: its offpeak-node may be of an older release"
    return f"{gpus or 'none'} of its {declared} GPUs answer"


def count_silent_polls(record: NodeRecord, observation: NodeObservation, context: NodeContext) -> int:
    """Return how many consecutive polls, with this one, match nothing but standby."""
    silent = observation.answers is False and _draws_little(observation, context) is not False
    return min(record.observed.silent_in_row + 1, STANDBY_POLLS) if silent else 0


def may_be_in_standby(record: NodeRecord) -> bool:
    """Whether its BMC alone cannot tell its state: it is in standby, or on its way there or back."""
    return record.observed.known is NodeState.STANDBY or (
        record.sent is not None and record.sent.order is NodeOrder.STANDBY
    )


def needs_evidence(record: NodeRecord) -> bool:
    """Whether the node itself must be polled: it may be in standby, comes up, or has not followed an order to sleep."""
    sent, pending = record.sent, record.attempts.pending
    return may_be_in_standby(record) or (sent is not None and (sent.order is NodeOrder.ON or pending is None))


def _in_standby(record: NodeRecord, observation: NodeObservation, context: NodeContext) -> tuple[NodeState, str]:
    slept, little = record.observed.known is NodeState.STANDBY, _draws_little(observation, context)
    if observation.answers:
        return _when_on(record, observation, context), ""
    if little is False:
        if record.observed.known is NodeState.STANDBY:
            return NodeState.BOOTING, ""
        if observation.power is PowerState.OFF and record.attempts.pending is None:
            return NodeState.UNKNOWN, OFF_BUT_DRAWS
        return _when_on(record, observation, context), ""
    if observation.power is PowerState.OFF or count_silent_polls(record, observation, context) >= STANDBY_POLLS:
        return NodeState.STANDBY, ""
    if not slept:
        return _when_on(record, observation, context), ""
    return (
        (NodeState.UNKNOWN, NO_EVIDENCE) if little is None and observation.answers is None else (NodeState.STANDBY, "")
    )


def _when_on(record: NodeRecord, observation: NodeObservation, context: NodeContext) -> NodeState:
    pending = record.attempts.pending
    if pending is not None and pending.order is not NodeOrder.ON:
        return NodeState.GOING_DOWN
    # An order to wake stays pending until it is followed: a node that hangs in its boot is not up after the time-out.
    comes = (
        record.sent is not None and record.sent.order is NodeOrder.ON
    ) or record.scheduler_state is SchedulerState.BOOTS
    is_up = _answers(record, observation) and not find_missing_gpus(record, observation, context)
    return NodeState.BOOTING if comes and not is_up else NodeState.ON


def _answers(record: NodeRecord, observation: NodeObservation) -> bool:
    if observation.answers is not None:
        return observation.answers
    return record.scheduler_state not in (SchedulerState.BOOTS, SchedulerState.DOWN)


def _draws_little(observation: NodeObservation, context: NodeContext) -> bool | None:
    """Whether it draws no more than in standby, None if unknown."""
    method = context.hardware.sleep_method(NodeOrder.STANDBY)
    if observation.watts is None or method is None or method.ceiling_w is None:
        return None
    return observation.watts <= method.ceiling_w
