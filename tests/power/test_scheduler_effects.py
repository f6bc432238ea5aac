"""Orders to the scheduler go through the door, which is shut in shadow mode."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from memory_journal import MemoryJournal
from recording_scheduler import RecordingScheduler

from offpeak.door.effect import Hold, Mode, Outcome, Refusal
from offpeak.errors import ListRefused, SchedulerError
from offpeak.model.orders import NodeChange
from offpeak.plugin.scheduler.port import Ranking
from offpeak.plugin.slurm import changes
from offpeak.plugin.slurm.changes import ScontrolOptions
from offpeak.plugin.slurm.nodes import ClosedReasons
from offpeak.power.door import scheduler_orders
from offpeak.power.door.scheduler_orders import SchedulerOrderResult, SchedulerOrders, make_scheduler_door

pytestmark = pytest.mark.quick


class Room:
    """Orders of a site with two nodes, one of which an admin holds."""

    def __init__(self, mode: Mode, **refuses: str) -> None:
        self.scheduler, self.journal = RecordingScheduler(refuses=refuses), MemoryJournal()
        holds = {"n2": Hold("carla", "memory test")}
        door = make_scheduler_door(self.journal, lambda _: mode, lambda: 1000.0, nodes=["n1", "n2"], hold_of=holds.get)
        self.orders = SchedulerOrders(door, self.scheduler)

    def change(self, node: str, change: NodeChange) -> SchedulerOrderResult:
        return asyncio.run(self.orders.change_node(node, change, why="offpeak: to sleep"))


def test_in_shadow_mode_the_scheduler_hears_nothing() -> None:
    room = Room(Mode.SHADOW)

    async def all_orders() -> list[SchedulerOrderResult]:
        orders = room.orders
        return [
            await orders.rank("batch", {"1": 5}, why="dear"),
            await orders.defer("batch", {"1": 5}, why="dear"),
            await orders.notify("batch", {"1": "waits"}, why="dear"),
            await orders.give_back("batch", {"1": 5}, {"2": 0}, why="it ends"),
            *[await orders.change_node("n1", change, why="offpeak: to sleep") for change in NodeChange],
        ]

    answers = asyncio.run(all_orders())
    assert all(isinstance(answer.answer, Refusal) and answer.answer.rule == "mode" for answer in answers)
    assert not any(answer.done for answer in answers)
    assert room.scheduler.reported == []
    assert len(room.journal.refusals) == len(answers)


def test_in_advise_mode_only_owners_are_notified() -> None:
    room = Room(Mode.ADVISE)
    assert not asyncio.run(room.orders.rank("batch", {"1": 5}, why="dear")).done
    assert asyncio.run(room.orders.notify("batch", {"1": "would wait"}, why="dear")).done
    assert asyncio.run(room.orders.give_back("batch", {"1": 5}, {}, why="by hand", by="admin root")).done
    assert [what for what, _ in room.scheduler.reported] == ["notify", "rank", "defer"]


def test_an_order_is_in_the_journal_before_and_after() -> None:
    room = Room(Mode.ACTIVE)
    answer = asyncio.run(room.orders.rank("batch,long", {"1": 5, "2": 4}, why="dear"))
    assert answer.done
    (done,) = room.journal.recent(0.0)
    assert (done.intent.effect.subject, done.intent.effect.order) == ("queue of batch,long", "rank")
    assert done.intent.effect.inputs == (("jobs", 2),)
    assert done.outcome == Outcome("done", "accepted")


def test_unchanged_jobs_are_reported_by_job() -> None:
    answer = asyncio.run(Room(Mode.ACTIVE, **{"2": "is held"}).orders.rank("batch", {"1": 5, "2": 4}, why="dear"))
    assert answer.failed == {"2": "is held"}
    assert answer.done


def test_a_node_that_the_scheduler_did_not_change_is_a_failure() -> None:
    answer = Room(Mode.ACTIVE, n1="Invalid node state").change("n1", NodeChange.POWER_DOWN)
    assert answer.answer == Outcome("failed", "Invalid node state", "SchedulerError")
    assert not answer.done


@pytest.mark.parametrize("change", [NodeChange.CLOSE, NodeChange.POWER_DOWN, NodeChange.POWER_UP])
def test_nodes_of_others_and_held_ones_are_left_alone(change: NodeChange) -> None:
    room = Room(Mode.ACTIVE)
    rules = [room.change(node, change).answer for node in ("n2", "n3")]
    assert [rule.rule for rule in rules if isinstance(rule, Refusal)] == ["held", "opted_in"]
    assert room.scheduler.reported == []


@pytest.mark.parametrize("change", [NodeChange.OPEN, NodeChange.RESUME])
def test_order_that_reopens_a_node_is_always_sent(change: NodeChange) -> None:
    room = Room(Mode.ACTIVE)
    assert all(room.change(node, change).done for node in ("n1", "n2", "n3"))


def test_changes_for_the_same_reason_are_one_order() -> None:
    """A node that the scheduler refuses fails alone; one that an admin takes hold of meanwhile is left out."""
    scheduler, journal, holds = RecordingScheduler(refuses={"n2": "no such node"}), MemoryJournal(), dict[str, Hold]()
    names = ["n1", "n2", "n3", "n4"]
    door = make_scheduler_door(journal, lambda _: Mode.ACTIVE, lambda: 1000.0, nodes=names, hold_of=holds.get)
    orders = SchedulerOrders(door, scheduler)

    async def all_at_once() -> list[SchedulerOrderResult]:
        reasons = dict.fromkeys(names, "offpeak: idle") | {"n4": "offpeak: no job needs it"}
        tasks = [
            asyncio.create_task(orders.change_node(node, NodeChange.CLOSE, why=why)) for node, why in reasons.items()
        ]
        while len(journal.unfinished()) < len(names):
            await asyncio.sleep(0)
        holds["n3"] = Hold("carla", "memory test")
        return await asyncio.gather(*tasks)

    results = [result.answer for result in asyncio.run(all_at_once())]
    assert sorted(scheduler.reported, key=str) == [
        (NodeChange.CLOSE, dict.fromkeys(["n1", "n2"], "offpeak: idle")),
        (NodeChange.CLOSE, {"n4": "offpeak: no job needs it"}),
    ]
    done = Outcome("done", "accepted")
    assert [results[0], results[1], results[3]] == [done, Outcome("failed", "no such node", "SchedulerError"), done]
    assert isinstance(results[2], Refusal)
    assert results[2].rule == "held"


class LeasedJournal(MemoryJournal):
    """The journal of an agent that may lose its lease."""

    leased = True

    def acts_for_s(self) -> float:
        return float(self.leased)


class ListScheduler(RecordingScheduler):
    """A scheduler that takes a second for a list, refuses one with `n2`, and something happens meanwhile."""

    def __init__(self, happens: Callable[[], None]) -> None:
        super().__init__(refuses={"n2": "no such node"})
        self._happens, self.lists = happens, list[Sequence[str]]()

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        self.lists.append(nodes)
        if "n2" in nodes and len(nodes) > 1:
            time.sleep(1.1)
            self._happens()
            raise ListRefused("invalid node list")
        return super().change_nodes(nodes, change, reason=reason)


@pytest.mark.parametrize(
    ("what", "spared", "why"),
    [
        ("nothing", [], ""),
        ("hold", ["n3"], "carla holds it"),
        ("lease", ["n1", "n2", "n3", "n4"], "the lease of this agent has ended"),
        ("mode", ["n1", "n2", "n3", "n4"], "shadow"),
    ],
)
def test_each_half_of_a_refused_list_is_checked_again(what: str, spared: list[str], why: str) -> None:
    """The scheduler may have carried out the list, so what is left out has failed, and was not refused."""
    holds, names, modes, journal = dict[str, Hold](), ["n1", "n2", "n3", "n4"], [Mode.ACTIVE], LeasedJournal()

    def happen() -> None:
        if what == "hold":
            holds["n3"] = Hold("carla", "memory test")
        journal.leased = what != "lease"
        modes[0] = Mode.SHADOW if what == "mode" else Mode.ACTIVE

    scheduler = ListScheduler(happen)
    door = make_scheduler_door(journal, lambda _: modes[0], lambda: 1000.0, nodes=names, hold_of=holds.get)
    orders = SchedulerOrders(door, scheduler)

    async def all_at_once() -> list[SchedulerOrderResult]:
        return await asyncio.gather(
            *(orders.change_node(node, NodeChange.CLOSE, why="offpeak: idle") for node in names)
        )

    results = dict(zip(names, [result.answer for result in asyncio.run(all_at_once())], strict=True))
    for node in spared:
        answer = results.pop(node)
        assert isinstance(answer, Outcome)
        assert answer.result == "failed"
        assert answer.message.startswith("invalid node list, perhaps after it was carried out; ")
        assert why in answer.message
    done, refused = Outcome("done", "accepted"), Outcome("failed", "no such node", "SchedulerError")
    assert results == {node: refused if node == "n2" else done for node in names if node not in spared}
    sent = {node for _, order in scheduler.reported for node in order}
    assert sent == set(names) - set(spared)


class SilentScheduler(RecordingScheduler):
    """A scheduler that an admin uses while it carries out the first list, and that stops answering."""

    def __init__(self, holds: dict[str, Hold], answers: int) -> None:
        super().__init__()
        self._holds, self._answers, self.lists = holds, answers, list[Sequence[str]]()

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        self.lists.append(nodes)
        if len(self.lists) > self._answers:
            raise SchedulerError("no answer")
        self._holds["n1"] = self._holds["n8"] = Hold("carla", "memory test")
        return super().change_nodes(nodes, change, reason=reason)


@pytest.mark.parametrize("answers", [4, 2])
def test_each_part_of_a_long_list_is_checked_and_done_by_itself(answers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_orders, "MOST_NODES", 2)
    holds, names = dict[str, Hold](), [f"n{number}" for number in range(1, 9)]
    scheduler = SilentScheduler(holds, answers)
    door = make_scheduler_door(MemoryJournal(), lambda _: Mode.ACTIVE, lambda: 1000.0, nodes=names, hold_of=holds.get)
    orders = SchedulerOrders(door, scheduler)

    async def all_at_once() -> list[SchedulerOrderResult]:
        return await asyncio.gather(
            *(orders.change_node(node, NodeChange.CLOSE, why="offpeak: idle") for node in names)
        )

    results = [result.answer for result in asyncio.run(all_at_once())]
    done, silent = Outcome("done", "accepted"), Outcome("failed", "no answer", "SchedulerError")
    # Threads bring the nodes, so on a busy machine n5 may come before n4, or one node alone.
    if answers == 4:
        assert sorted(len(nodes) for nodes in scheduler.lists) == [1, 2, 2, 2]
        assert sorted(node for nodes in scheduler.lists for node in nodes) == names[:7]
        assert results[:7] == [done] * 7
        assert isinstance(results[7], Refusal)
        assert results[7].rule == "held"
    else:
        assert len(scheduler.lists) == 3
        answered = sum(len(nodes) for nodes in scheduler.lists[:2])
        assert results.count(done) == answered
        # n8 is held once the first list is done, and is refused if it comes before the silence.
        assert results.count(silent) in (7 - answered, 8 - answered)


def test_a_list_of_one_that_is_refused_is_a_failure() -> None:
    class NoLists(RecordingScheduler):
        def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
            raise ListRefused(f"{change} of {nodes[0]}: {reason}")

    room = Room(Mode.ACTIVE)
    orders = SchedulerOrders(room.orders.door, NoLists())
    answer = asyncio.run(orders.change_node("n1", NodeChange.CLOSE, why="offpeak: idle")).answer
    assert answer == Outcome("failed", "close of n1: offpeak: idle", "ListRefused")


class SlowScheduler(RecordingScheduler):
    """A scheduler of one command a node, whose first command ends when the test lets it."""

    changes_lists = False
    begun, goes_on = threading.Event(), threading.Event()

    def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
        if not self.begun.is_set():
            self.begun.set()
            assert self.goes_on.wait(300)
        return super().change_nodes(nodes, change, reason=reason)


def test_a_slow_command_takes_no_other_node_past_its_last_check() -> None:
    """Where a command changes one node, an order is checked right before its own command, and waits for no other."""
    scheduler, journal, holds = SlowScheduler(), MemoryJournal(), dict[str, Hold]()
    door = make_scheduler_door(
        journal, lambda _: Mode.ACTIVE, lambda: 1000.0, nodes=["n1", "n2", "n3"], hold_of=holds.get
    )
    orders = SchedulerOrders(door, scheduler)

    def ordered(node: str) -> asyncio.Task[SchedulerOrderResult]:
        return asyncio.create_task(orders.change_node(node, NodeChange.CLOSE, why="offpeak: idle"))

    async def one_is_slow() -> list[SchedulerOrderResult]:
        slow = ordered("n1")
        await asyncio.to_thread(scheduler.begun.wait, 300)
        second = await ordered("n2")
        late = ordered("n3")
        while len(journal.unfinished()) < 2:
            await asyncio.sleep(0)
        holds["n3"] = Hold("carla", "memory test")
        results = [second, await late]
        scheduler.goes_on.set()
        return [await slow, *results]

    results = asyncio.run(one_is_slow())
    assert [result.done for result in results] == [True, True, False]
    assert [list(nodes) for _, nodes in scheduler.reported] == [["n2"], ["n1"]]


SLOW_SCONTROL = """\
#!/bin/sh
case "$*" in
*show*) touch {folder}/reads; while [ -e {folder}/reads ]; do sleep 0.01; done; echo 'NodeName=n1 State=IDLE ' ;;
*) echo "$*" >> {folder}/orders; cat >> {folder}/orders ;;
esac
"""
SLOW_SQUEUE = """\
#!/bin/sh
touch {folder}/reads; while [ -e {folder}/reads ]; do sleep 0.01; done; echo 'JOBID|PRIORITY|REASON'
"""


@pytest.mark.parametrize("order", ["close", "rank"])
@pytest.mark.parametrize("what", ["nothing", "lease", "mode", "hold"])
def test_an_order_is_checked_after_the_scheduler_was_read_for_it(
    order: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While slurmctld takes its time to show the nodes or jobs, the agent loses the right to change them."""
    for name, script in (("scontrol", SLOW_SCONTROL), ("squeue", SLOW_SQUEUE)):
        (tmp_path / name).write_text(script.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    journal, modes, holds = LeasedJournal(), [Mode.ACTIVE], dict[str, Hold]()
    door = make_scheduler_door(journal, lambda _: modes[0], lambda: 1000.0, nodes=["n1"], hold_of=holds.get)
    scontrol = ScontrolOptions((), 30.0)

    class OnlyChanges(RecordingScheduler):
        def change_nodes(self, nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
            return changes.change_nodes(nodes, change, reason=reason, scontrol=scontrol, reasons=ClosedReasons())

        def rank(self, values: Mapping[str, int]) -> dict[str, str]:
            return changes.rank_jobs(values, Ranking.OFFSET, scontrol)

    orders = SchedulerOrders(door, OnlyChanges())

    async def lose_it_while_it_reads() -> SchedulerOrderResult:
        given = (
            orders.change_node("n1", NodeChange.CLOSE, why="offpeak: idle")
            if order == "close"
            else orders.rank("batch", {"7": 5}, why="dear")
        )
        task = asyncio.create_task(given)
        while not (tmp_path / "reads").exists():
            assert not task.done(), task.result()
            await asyncio.sleep(0.01)
        journal.leased = what != "lease"
        modes[0] = Mode.SHADOW if what == "mode" else Mode.ACTIVE
        if what == "hold":
            holds["n1"] = Hold("carla", "memory test")
        (tmp_path / "reads").unlink()
        return await task

    result = asyncio.run(lose_it_while_it_reads())
    if what == "nothing" or (order, what) == ("rank", "hold"):
        assert result.done
        assert (tmp_path / "orders").exists()
    else:
        assert isinstance(result.answer, Refusal), result
        assert result.answer.rule == {"hold": "held"}.get(what, what)
        assert not (tmp_path / "orders").exists()
