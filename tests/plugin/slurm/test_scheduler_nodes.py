"""Nodes of a running slurmctld: closed, opened and reserved; and what admins and jobs' owners read of us."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from memory_journal import MemoryJournal
from slurm_queue import empty, submit

from benchmarks.local_slurm.processes import wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.door.effect import Hold, Mode, Outcome
from offpeak.errors import ListRefused
from offpeak.model.orders import NodeChange, PowerState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import Scheduler, in_use
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.power.door.scheduler_orders import SchedulerOrderResult, SchedulerOrders, make_scheduler_door
from offpeak.settings.agent import SlurmSettings

WHY = "offpeak: sleeps, as nobody needs it"


def node_of(slurm: Scheduler, name: str) -> Node:
    return next(node for node in slurm.view().nodes if node.name == name)


def change(slurm: Scheduler, name: str, what: NodeChange) -> dict[str, str]:
    return slurm.change_nodes([name], what, reason=WHY)


@contextmanager
def drained(cluster: SlurmCluster, node: str, reason: str) -> Iterator[None]:
    cluster.run("scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}")
    try:
        yield
    finally:
        cluster.run("scontrol", "update", f"nodename={node}", "state=resume")


@pytest.mark.usefixtures("basic")
def test_a_node_is_closed_and_opened(slurm: SlurmScheduler) -> None:
    before = int(time.time())
    assert in_use(slurm, "node2") == "is not drained: a job may start there"
    assert slurm.change_nodes(["node2", "no-such", "node3"], NodeChange.CLOSE, reason=WHY) == {
        "no-such": "Slurm has no such node"
    }
    node = node_of(slurm, "node2")
    assert (node.closed, node.closed_by_us, node.reason, node.reason_by) == (True, True, WHY, "root")
    assert before - 1 <= (node.reason_s or 0) <= before + 60
    assert (node.use, node.power, node.failed, node.native_state) == (NodeUse.FREE, PowerState.ON, False, "IDLE+DRAIN")
    assert (node.partitions, node.cpus, node.memory_mib) == (("batch", "again"), 4, 1000)
    assert in_use(slurm, "node2") == ""
    assert change(slurm, "node2", NodeChange.CLOSE) == {}
    assert slurm.change_nodes(["node2", "node3"], NodeChange.OPEN, reason="") == {}
    node = node_of(slurm, "node2")
    assert (node.closed, node.reason, node.reason_s) == (False, "", None)
    assert change(slurm, "node2", NodeChange.OPEN) == {}


REFUSES_LISTS = """#!/bin/sh
order=$(sed '/^$/d')
echo "$order" | cut -d' ' -f2,3 >>{log}
case "${{order%% state=*}}" in *,*) {first}; echo "slurm_update error: Invalid node state specified" >&2; exit 1;; esac
echo "$order" | "$@"
"""
"""Runs scontrol, and refuses a list after it has changed its nodes, as some versions do, or has not."""


@pytest.fixture(params=['echo "$order" | "$@"', ":"])
def without_lists(request: pytest.FixtureRequest, basic: SlurmCluster, tmp_path: Path) -> Iterator[SlurmScheduler]:
    """A scheduler that refuses lists; its orders are in the file `log`."""
    prefix = tmp_path / "prefix"
    prefix.write_text(REFUSES_LISTS.format(log=tmp_path / "log", first=request.param))
    prefix.chmod(0o755)
    yield SlurmScheduler(SlurmSettings(timeout_s=300, command=(str(prefix),)))
    basic.run("scontrol", "update", "nodename=node1,node3", "state=undrain")


LIST = "nodename=node1,node3 state=drain"


def orders_in(folder: Path) -> list[str]:
    return (folder / "log").read_text().splitlines()


def test_a_refused_list_is_an_error_and_its_nodes_can_be_changed_alone(
    without_lists: SlurmScheduler, tmp_path: Path
) -> None:
    with pytest.raises(ListRefused, match="Invalid node state specified"):
        without_lists.change_nodes(["node1", "node3"], NodeChange.CLOSE, reason=WHY)
    is_changed = node_of(without_lists, "node1").closed
    assert [change(without_lists, name, NodeChange.CLOSE) for name in ("node1", "node3")] == [{}, {}]
    assert all(node_of(without_lists, name).closed_by_us for name in ("node1", "node3"))
    alone = [] if is_changed else ["nodename=node1 state=drain", "nodename=node3 state=drain"]
    assert orders_in(tmp_path) == [LIST, *alone]


def test_the_door_orders_for_each_node_of_a_refused_list(without_lists: SlurmScheduler, tmp_path: Path) -> None:
    names = ["node1", "node3"]
    door = make_scheduler_door(
        MemoryJournal(), lambda _: Mode.ACTIVE, time.time, nodes=names, hold_of=dict[str, Hold]().get
    )
    orders = SchedulerOrders(door, without_lists)

    async def all_at_once() -> list[SchedulerOrderResult]:
        return await asyncio.gather(*(orders.change_node(name, NodeChange.CLOSE, why=WHY) for name in names))

    assert [result.answer for result in asyncio.run(all_at_once())] == [Outcome("done", "accepted")] * 2
    assert all(node_of(without_lists, name).closed_by_us for name in names)
    assert orders_in(tmp_path)[0] == LIST
    assert orders_in(tmp_path).count(LIST) == 1


def test_node_closed_or_downed_by_an_admin_stays_so(basic: SlurmCluster, slurm: SlurmScheduler) -> None:
    with drained(basic, "node3", "broken fan [call 7]"):
        for what in (NodeChange.CLOSE, NodeChange.OPEN, NodeChange.RESUME):
            assert change(slurm, "node3", what) == {"node3": "was closed by root: broken fan [call 7]"}
        assert node_of(slurm, "node3").reason == "broken fan [call 7]"

    def change_of_down_node(what: NodeChange) -> dict[str, str]:
        basic.run("scontrol", "update", "nodename=node3", "state=down", "reason=dead psu")
        refused = change(slurm, "node3", what)
        if not refused:
            # With ReturnToService=2 a node that registers is up again, whoever took it down: it was before the change.
            assert not node_of(slurm, "node3").failed
            change(slurm, "node3", NodeChange.OPEN)
        return refused

    refusal = {"node3": "was taken down by root: dead psu"}
    for what in (NodeChange.CLOSE, NodeChange.RESUME):
        wait_until(partial(lambda each: change_of_down_node(each) == refusal, what), what="node3 to stay down")
    # It may be up again by itself by now, and then cannot be resumed.
    with suppress(subprocess.CalledProcessError):
        basic.run("scontrol", "update", "nodename=node3", "state=resume")
    wait_until(lambda: not node_of(slurm, "node3").failed, what="node3 to be up again")


def test_reservations_and_maintenance(basic: SlurmCluster, slurm: SlurmScheduler) -> None:
    create = ("scontrol", "create", "reservation", "starttime=now", "duration=60", "users=root")
    basic.run(*create, "reservationname=works", "nodes=node[2-3]", "flags=maint,ignore_jobs")
    try:
        works = slurm.view().reservations[0]
        assert (works.name, works.nodes, works.maintenance) == ("works", ("node2", "node3"), True)
        assert works.end_s - works.start_s == 3600
        wait_until(lambda: node_of(slurm, "node2").reserved, what="the maintenance to begin")
        assert not node_of(slurm, "node1").reserved
    finally:
        basic.run("scontrol", "delete", "reservationname=works")


@pytest.mark.parametrize("theirs", ["", "ask Ann before you kill this", 'quotes " and [brackets]', "two\n   lines"])
def test_an_admins_comment_survives_ours(theirs: str, basic: SlurmCluster, slurm: SlurmScheduler) -> None:
    def comment(job: str) -> str:
        shown = basic.run("scontrol", "show", "job", job)
        return shown.partition("   AdminComment=")[2].partition("\n   StdErr=")[0].rstrip()

    job = submit(basic, "--hold", "--job-name=a name")
    try:
        basic.run("scontrol", "update", f"jobid={job}", f"admincomment={theirs}")
        assert slurm.notify({job: "starts at 06:00 [flexible]\n", "99999999": "no such job"}) == {}
        assert comment(job) == f"{theirs} [offpeak: starts at 06:00 [flexible)]".strip()
        assert slurm.notify({job: "starts at 07:00"}) == {}
        assert comment(job) == f"{theirs} [offpeak: starts at 07:00]".strip()
        assert slurm.notify({job: ""}) == {}
        assert comment(job) == theirs
    finally:
        empty(basic)
