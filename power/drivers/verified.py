"""Orders whose effect is seen: a BMC that accepts an order has done nothing yet, and some forget it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from offpeak.errors import DeviceError, WrongDevice
from offpeak.machines.inventory import Enrolled
from power.drivers.port import Observed, Order, PowerDriver, PowerState


@dataclass(frozen=True)
class Outcome:
    """What became of an order: reached or not, what was seen last, how often it was sent, and how long all took.

    `trouble` says why an order could not be given, or why the state is not known. Not reached is neither on nor off.
    """

    reached: bool
    observed: Observed
    sent: int
    took_s: float
    trouble: DeviceError | None = None


async def bring_to(
    driver: PowerDriver,
    order: Order,
    *,
    patience_s: float,
    poll_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Outcome:
    """Bring a node to where the order leads and return when it is seen there, or patience has ended.

    Nothing is sent while the state is unknown. ON is sent once more after half of the patience: BMCs accept it
    while the host still shuts down, and drop it. It ends at once on trouble that asking again cannot mend.
    """
    begin_s, sent, trouble = clock(), 0, None
    while True:
        observed = await driver.query()
        took_s = clock() - begin_s
        reached = observed.state is goal_of(order)
        if reached or took_s >= patience_s or _is_final(observed.trouble or trouble):
            return Outcome(reached, observed, sent, took_s, None if reached else observed.trouble or trouble)
        if observed.state is not PowerState.UNKNOWN and _is_due(order, sent, took_s / patience_s):
            trouble = await _trouble_of_sending(driver, order)
            sent += trouble is None
        await sleep(poll_s)


async def check_identity(driver: PowerDriver, enrolled: Enrolled) -> None:
    """Return if the device is the one that was enrolled; WrongDevice if it is another or does not say, or NoAnswer.

    To be asked before every order that takes power away: an address may lead to another node since a repair.
    """
    identity = await driver.identity()
    if identity != enrolled.identity:
        is_now = f"says it is {identity}" if identity else "does not say who it is"
        what = f"{driver.name}: {is_now}, but {enrolled.identity} was enrolled on {enrolled.date}"
        raise WrongDevice(what, hint="look where the address leads; enrol the node again if its board was replaced")


def goal_of(order: Order) -> PowerState:
    """Return the state in which a node that has followed the order is seen."""
    return PowerState.ON if order is Order.ON else PowerState.OFF


def _is_due(order: Order, sent: int, share_of_patience: float) -> bool:
    return sent == 0 or (order is Order.ON and sent == 1 and share_of_patience >= 0.5)


def _is_final(trouble: DeviceError | None) -> bool:
    return trouble is not None and not trouble.may_retry


async def _trouble_of_sending(driver: PowerDriver, order: Order) -> DeviceError | None:
    try:
        await driver.send(order)
    except DeviceError as trouble:
        return trouble
    return None
