"""Calls that several orders share: each begins after all of its orders were ready, and fails for all of them."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from offpeak.door.door import SharedCall

pytestmark = pytest.mark.quick


class Ask:
    """Keeps the calls; each waits for `go`."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.go = threading.Event()
        self.shared = SharedCall(self._ask)

    def _ask(self, items: Sequence[str]) -> dict[str, int]:
        self.calls.append(list(items))
        self.go.wait(300)
        if "bad" in items:
            raise OSError("silent")
        return {item: len(self.calls) for item in items}


async def until_called(ask: Ask, times: int) -> None:
    while len(ask.calls) < times:
        await asyncio.sleep(0.01)


def test_items_that_come_during_a_call_wait_for_the_next_one() -> None:
    async def run() -> list[dict[str, int]]:
        ask = Ask()
        first = [asyncio.create_task(ask.shared.join(item)) for item in ("a", "b")]
        await until_called(ask, 1)
        late = [asyncio.create_task(ask.shared.join(item)) for item in ("c", "d")]
        await asyncio.sleep(0.1)
        assert ask.calls == [["a", "b"]]
        ask.go.set()
        answers = await asyncio.gather(*first, *late)
        assert ask.calls == [["a", "b"], ["c", "d"]]
        return answers

    assert asyncio.run(run()) == [{"a": 1, "b": 1}] * 2 + [{"c": 2, "d": 2}] * 2


def test_a_failure_is_that_of_all_items_and_the_next_call_is_free_of_it() -> None:
    async def run() -> None:
        ask = Ask()
        ask.go.set()
        results = await asyncio.gather(*map(ask.shared.join, ("a", "bad")), return_exceptions=True)
        assert [str(result) for result in results] == ["silent", "silent"]
        assert await ask.shared.join("a") == {"a": 2}

    asyncio.run(run())


@pytest.mark.parametrize("others", [[], ["b"]])
def test_an_item_that_is_cancelled_in_time_is_left_out(others: list[str]) -> None:
    async def run() -> None:
        ask = Ask()
        ask.go.set()
        cancelled, *rest = [asyncio.create_task(ask.shared.join(item)) for item in ("a", *others)]
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(*rest)
        await asyncio.sleep(0.1)
        assert ask.calls == ([others] if others else [])
        assert await ask.shared.join("c") == {"c": len(ask.calls)}
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    asyncio.run(run())


def test_a_loop_that_ends_leaves_nothing_behind() -> None:
    ask = Ask()
    ask.go.set()

    async def ends() -> None:
        asyncio.create_task(ask.shared.join("a"))  # noqa: RUF006
        await asyncio.sleep(0)

    asyncio.run(ends())
    assert asyncio.run(ask.shared.join("b")) == {"b": 1}
