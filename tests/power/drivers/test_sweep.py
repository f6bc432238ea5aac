"""A sweep over many devices: what is dead delays nobody, and nothing is left running."""

import asyncio
from collections.abc import Awaitable
from contextlib import aclosing

import pytest

from offpeak.errors import BadAnswer, BadInventory, DeviceError, NoAnswer
from offpeak.model.orders import PowerState
from offpeak.power.drivers.poll import iterate_completed, poll_drivers
from offpeak.power.drivers.port import PowerObservation
from offpeak.power.meters.port import Reading, read_meters

pytestmark = pytest.mark.quick


async def after(delay_s: float, result: int | Exception) -> int:
    await asyncio.sleep(delay_s)
    if isinstance(result, Exception):
        raise result
    return result


def collected(calls: dict[str, Awaitable[int]], timeout_s: float) -> list[tuple[str, int | DeviceError]]:
    async def run() -> list[tuple[str, int | DeviceError]]:
        results = [each async for each in iterate_completed(calls, timeout_s=timeout_s)]
        assert len(asyncio.all_tasks()) == 1
        return results

    return asyncio.run(run())


def test_results_come_in_the_order_of_their_arrival() -> None:
    error = BadAnswer("b")
    results = collected({"a": after(0.06, 1), "b": after(0.03, error), "c": after(0.0, 3)}, 5)
    assert results == [("c", 3), ("b", error), ("a", 1)]


def test_an_answer_that_is_not_understood_keeps_no_other_one_back() -> None:
    gone = BadInventory("/etc/offpeak/key: cannot be read", hint="ssh-keygen")
    calls = {"odd": after(0.0, KeyError("Systems")), "key": after(0.01, gone), "b": after(0.03, 2)}
    (first, second, third) = collected(calls, 5)
    assert third == ("b", 2)
    assert isinstance(first[1], BadAnswer)
    assert "odd: its answer is not understood: KeyError('Systems')" in str(first[1])
    assert isinstance(second[1], BadAnswer)
    assert (str(second[1]), second[1].hint) == ("key: /etc/offpeak/key: cannot be read", "ssh-keygen")


def test_late_answer_counts_as_no_answer() -> None:
    (first, second) = collected({"slow": after(3600, 1), "quick": after(0, 2)}, 1.0)
    assert first == ("quick", 2)
    assert second[0] == "slow"
    assert isinstance(second[1], NoAnswer)


def test_no_device_polled_gives_nothing() -> None:
    assert collected({}, 1) == []


def test_nothing_is_left_running_after_a_break() -> None:
    async def run() -> int:
        async with aclosing(iterate_completed({"a": after(60, 1), "b": after(0, 2)}, timeout_s=9)) as results:
            assert await anext(results) == ("b", 2)
        return len(asyncio.all_tasks())

    assert asyncio.run(run()) == 1


class Silent:
    """A meter without a reading."""

    name, way = "b", "snmp"

    async def read(self) -> tuple[Reading, ...]:
        return ()

    async def close(self) -> None:
        """Do nothing."""


class Odd:
    """A meter whose answer is not understood."""

    name, way = "odd", "redfish"

    async def read(self) -> tuple[Reading, ...]:
        raise KeyError("Chassis")

    async def close(self) -> None:
        """Do nothing."""


def test_a_meter_whose_answer_is_not_understood_keeps_no_other_one_back() -> None:
    (first, second) = asyncio.run(read_meters([Odd(), Silent()], timeout_s=60))
    assert isinstance(first.error, BadAnswer)
    assert (second.meter, second.error) == ("b", None)


class Slow:
    """A node that is on, and says so after a while."""

    name, orders = "slow", frozenset[str]()

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s

    async def query(self) -> PowerObservation:
        await asyncio.sleep(self.delay_s)
        return PowerObservation(PowerState.ON, 7.0)


def test_a_late_node_is_unknown_not_off() -> None:
    drivers = {"n1": Slow(0), "n2": Slow(3600)}
    seen = asyncio.run(poll_drivers(drivers, timeout_s=1.0, clock=lambda: 9.0))  # type: ignore[arg-type]
    assert seen["n1"] == PowerObservation(PowerState.ON, 7.0)
    assert (seen["n2"].state, seen["n2"].at_unix_s) == (PowerState.UNKNOWN, 9.0)
    assert isinstance(seen["n2"].error, NoAnswer)
