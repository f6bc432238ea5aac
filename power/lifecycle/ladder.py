"""The steps towards a wish, by the rungs that the hardware has: what is ordered first, and what if that fails."""

from dataclasses import dataclass

from offpeak.machines.inventory import SleepMethod
from power.drivers.port import Order
from power.lifecycle.life import ASLEEP, NodeState
from power.lifecycle.terms import Terms

GOING = {Order.STANDBY: "suspend", Order.SOFT_OFF: "shutdown", Order.HARD_OFF: "shutdown"}


@dataclass(frozen=True, slots=True)
class Step:
    """An order and the way it is given ("bmc", "wol", "" for the only one), and how long its effect is waited for."""

    order: Order
    way: str
    time_out_s: float


def change_of(order: Order, was: NodeState) -> str:
    """Return the name of the change that the order makes to a node in that state, as times are learned by."""
    if order is Order.ON:
        return "resume" if was is NodeState.STANDBY else "boot"
    return GOING[order]


def steps_to(order: Order, was: NodeState, terms: Terms) -> tuple[Step, ...]:
    """Return the steps from that state to where the order leads, none where the hardware has no such rung."""
    return _up(was, terms) if order is Order.ON else _down(order, terms)


def _up(was: NodeState, terms: Terms) -> tuple[Step, ...]:
    rung = _slept_on(was, terms)
    if rung is None:
        return ()
    change = change_of(Order.ON, was)
    return tuple(Step(Order.ON, way, terms.times.time_out_s(change, rung.wake_patience_s)) for way in rung.wake)


def _down(order: Order, terms: Terms) -> tuple[Step, ...]:
    orders = [order]
    if order is Order.SOFT_OFF and terms.conduct.cut_power:
        orders.append(Order.HARD_OFF)
    rungs = [(each, terms.hardware.rung(each)) for each in orders]
    return tuple(
        Step(each, "", terms.times.time_out_s(GOING[each], rung.enter_patience_s))
        for each, rung in rungs
        if rung is not None
    )


def _slept_on(was: NodeState, terms: Terms) -> SleepMethod | None:
    """Return the rung on which a node in that state sleeps, another if it sleeps where the hardware has no rung."""
    if was not in ASLEEP:
        return None
    rungs = terms.hardware.rungs
    fitting = (rung for rung in rungs if (rung.name == "standby") is (was is NodeState.STANDBY))
    return next(fitting, rungs[0] if rungs else None)
