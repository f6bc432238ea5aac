"""Torque, as the stand-in plays it: what differs from other schedulers behind the same port."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pbs_standin import StandIn, standin

from benchmarks.local_slurm.processes import wait_until
from offpeak.model.orders import NodeChange, PowerState
from offpeak.plugin.contract.rules import ManagedSite, check_contract
from offpeak.plugin.pbs.commands import CannotAskPbs, PbsIsSilent
from offpeak.plugin.pbs.torque import (
    NO_METHOD,
    QUEUE_MOVED,
    ReorderMethod,
    TorqueScheduler,
    find_reorder_method,
    plan_swaps,
)
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node
from offpeak.plugin.scheduler.port import in_use
from offpeak.settings.agent import PbsSettings

BY_PRIORITY = PbsSettings(timeout_s=300, torque_order="priority")
BY_SWAPS = PbsSettings(timeout_s=300, torque_order="swap")


@pytest.fixture
def torque(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with standin("torque", tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        yield running


def submit(torque: StandIn, *options: str, nodes: int = 3) -> str:
    return torque.run("qsub", "-l", f"nodes={nodes}:ppn=8", *options, user="alice", stdin="sleep 1000\n")


def jobs(scheduler: TorqueScheduler) -> dict[str, Job]:
    return {job.job_id: job for job in scheduler.view().jobs}


def node(scheduler: TorqueScheduler, name: str = "node1") -> Node:
    return next(node for node in scheduler.view().nodes if node.name == name)


def test_jobs_swap_places_if_priorities_do_not_count(torque: StandIn) -> None:
    scheduler = TorqueScheduler(BY_SWAPS)
    submit(torque)
    waiting = [submit(torque) for _ in range(4)]
    present = jobs(scheduler)
    assert sorted(waiting, key=lambda job: -present[job].priority) == waiting
    values = sorted((present[job].priority for job in waiting), reverse=True)
    wanted = [waiting[2], waiting[0], waiting[3], waiting[1]]
    assert scheduler.rank(dict(zip(wanted, values, strict=True))) == {}
    assert sorted(waiting, key=lambda job: -jobs(scheduler)[job].priority) == wanted
    # Once more, and nobody is exchanged with itself: the stand-in would complain, and a server of 4.2 hang.
    assert scheduler.rank(dict(zip(wanted, values, strict=True))) == {}
    assert scheduler.rank({waiting[0]: values[0], waiting[1]: 5}) == dict.fromkeys(waiting[:2], QUEUE_MOVED)


@given(st.permutations(range(7)))
def test_swaps_lead_there_and_never_name_one_job_twice(order: list[int]) -> None:
    names = [f"{number}.head" for number in range(7)]
    present = {name: 100 - at for at, name in enumerate(names)}
    wanted = {names[job]: 100 - at for at, job in enumerate(order)}
    has = dict(present)
    pairs = list(plan_swaps(present, wanted))
    for one, other in pairs:
        assert one != other
        has[one], has[other] = has[other], has[one]
    assert has == wanted
    assert len(pairs) <= 6


def test_reorder_method_follows_the_sort_key_of_the_site(tmp_path: Path) -> None:
    config = tmp_path / "sched_priv" / "sched_config"
    config.parent.mkdir()
    auto = PbsSettings(home=tmp_path)
    found = find_reorder_method(auto)
    assert (found.method, found.why) == (
        ReorderMethod.NONE,
        f"{config}: No such file or directory",
    )
    assert "torque_order" in found.hint
    for text, expected in (
        ("# sort_by: no_sort\nsort_by: shortest_job_first ALL\n", ReorderMethod.NONE),
        ("sort_by: high_priority_first\tALL\n", ReorderMethod.PRIORITY),
        ("sort_by: no_sort ALL\n", ReorderMethod.SWAP),
        ("round_robin: False all\n", ReorderMethod.NONE),
    ):
        config.write_text(text)
        assert find_reorder_method(auto).method is expected
    config.write_text("sort_by: no_sort ALL\n")
    assert find_reorder_method(auto).description == "qorder, as pbs_sched sorts by no_sort"
    assert find_reorder_method(replace(auto, torque_order="priority")).description == "qalter -p, as torque_order says"


def test_scheduler_process_is_detected_before_its_files_are_read(tmp_path: Path) -> None:
    config = tmp_path / "sched_priv" / "sched_config"
    config.parent.mkdir()
    config.write_text("sort_by: high_priority_first ALL\n")
    auto, processes = PbsSettings(home=tmp_path), tmp_path / "proc"
    for number, name in (("1", "systemd"), ("77", "pbs_server"), ("self", "maui")):
        (processes / number).mkdir(parents=True)
        (processes / number / "comm").write_text(f"{name}\n")
    assert find_reorder_method(auto, processes=processes).method is ReorderMethod.PRIORITY
    (processes / "99").mkdir()
    (processes / "99" / "comm").write_text("maui\n")
    found = find_reorder_method(auto, processes=processes)
    assert (found.method, found.why) == (ReorderMethod.NONE, "maui runs here")
    assert "USERPRIOWEIGHT" in found.hint
    assert (
        find_reorder_method(replace(auto, torque_order="priority"), processes=processes).method
        is ReorderMethod.PRIORITY
    )


def test_no_order_is_sent_if_no_method_moves_jobs(torque: StandIn) -> None:
    scheduler = TorqueScheduler(PbsSettings(timeout_s=300, home=torque.programs))
    submit(torque)
    job = submit(torque)
    assert scheduler.rank({job: 5}) == {job: NO_METHOD}
    (finding,) = check_contract(scheduler.traits().contract, ManagedSite())
    assert "No such file or directory: no known way changes the order of jobs" in finding.message
    assert "torque_order" in finding.hint


def test_priorities_that_torque_has_not(torque: StandIn) -> None:
    submit(torque)
    job = submit(torque)
    assert TorqueScheduler(BY_PRIORITY).rank({job: 1024}) == {job: "priority 1024 is none"}


def test_user_who_is_no_manager_is_reported(torque: StandIn, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    nobody = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
    other = TorqueScheduler(PbsSettings(command=nobody, timeout_s=300, torque_order="priority"))
    for folder in torque.programs.parents:
        if folder.stat().st_mode & 0o005 != 0o005 and folder.is_relative_to("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    submit(torque)
    job = submit(torque)
    assert other.rank({job: 5}) == {job: "Unauthorized Request"}
    assert "Unauthorized" in other.change_nodes(["node1"], NodeChange.CLOSE, reason="offpeak: x")["node1"]
    assert not node(other).closed


def test_a_node_that_sleeps_and_wakes(torque: StandIn) -> None:
    # The server's own clock, which dates a node's last report, is ahead of the clock of this test.
    now_s = [int(time.time()) - 1000]
    scheduler = TorqueScheduler(PbsSettings(timeout_s=300, boot_s=300), clock=lambda: now_s[0])

    def change(what: NodeChange) -> None:
        assert scheduler.change_nodes(["node1"], what, reason="offpeak: nobody, needs it") == {}

    change(NodeChange.CLOSE)
    assert node(scheduler).reason == "offpeak: nobody; needs it"
    torque.do(lambda pbs: pbs.cluster.goes_down("node1", now_s[0]))
    assert (node(scheduler).closed_by_us, node(scheduler).failed) == (True, True)
    change(NodeChange.POWER_DOWN)
    assert torque.run("pbsnodes", "-x", "node1").count("<state>down,offline</state>") == 1
    assert node(scheduler).power is PowerState.OFF
    assert in_use(scheduler, "node1") == ""
    now_s[0] += 100
    change(NodeChange.POWER_UP)
    assert node(scheduler).power is PowerState.POWERING_ON
    now_s[0] += 301
    assert (node(scheduler).power, node(scheduler).failed) == (PowerState.OFF, True)
    torque.do(lambda pbs: pbs.cluster.comes_up("node1", now_s[0]))
    # Torque leaves it offline: opening it is ours.
    assert (node(scheduler).power, node(scheduler).closed_by_us) == (PowerState.ON, True)
    change(NodeChange.OPEN)
    assert (node(scheduler).closed, node(scheduler).reason) == (False, "")
    assert torque.do(lambda pbs: pbs.cluster.nodes["node1"].note) == ""


def test_an_empty_queue_where_the_server_counts_jobs_is_an_error(
    torque: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(torque)
    real, wrapper = torque.programs / "qstat", tmp_path / "first"
    wrapper.mkdir()
    (wrapper / "qstat").write_text(f'#!/bin/sh\ncase "$1" in -x) ;; *) exec {real} "$@";; esac\n')
    (wrapper / "qstat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper}:{torque.path}")
    with pytest.raises(CannotAskPbs, match="shows no job, and the server counts 1"):
        TorqueScheduler(BY_PRIORITY).view()
    torque.run("qdel", "1.head")
    assert TorqueScheduler(BY_PRIORITY).view().jobs == ()


def test_a_begin_time_ends_by_itself(torque: StandIn) -> None:
    scheduler = TorqueScheduler(BY_PRIORITY)
    filler = submit(torque)
    job = submit(torque)
    at_s = scheduler.view().at_s + 20  # a busy machine shows the job seconds later
    assert scheduler.defer({job: at_s}) == {}
    assert (jobs(scheduler)[job].native_state, jobs(scheduler)[job].begin_s) == ("W", at_s)
    torque.run("qdel", filler)
    wait_until(lambda: scheduler.view().at_s > at_s, what="its time")
    assert scheduler.start_cycle([job]) == {}
    wait_until(lambda: jobs(scheduler)[job].state is JobState.RUNNING, what="the job to start")
    assert (jobs(scheduler)[job].start_s or 0) >= at_s


def test_a_server_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standin("torque", tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
    scheduler = TorqueScheduler(BY_PRIORITY)
    for call in (
        scheduler.view,
        scheduler.traits,
        lambda: scheduler.rank({"1.head": 1}),
        lambda: in_use(scheduler, "node1"),
    ):
        with pytest.raises(PbsIsSilent, match="cannot connect"):
            call()


def test_an_unknown_node(torque: StandIn) -> None:
    assert torque.pbs.kind == "torque"
    with pytest.raises(CannotAskPbs, match="node n9"):
        in_use(TorqueScheduler(BY_PRIORITY), "n9")
