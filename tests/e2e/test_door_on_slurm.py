"""The door queries a running Slurm directly before it removes power from a node; the BMCs' logs prove it."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from guarded_room import ALL_OPEN, OFF, ON, GuardedRoom, guarded_room
from slurm_fixtures import SlurmAccounting

from benchmarks.local_slurm.processes import wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.door.effect import Outcome, Refusal
from offpeak.machines.inventory import Inventory, SleepMethod
from offpeak.model.orders import NodeOrder
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.settings.agent import SlurmSettings

OPEN = replace(ALL_OPEN, nodes="node[1-3]")
OFF_3 = replace(OFF, subject="node3")


def node_messages(cluster: SlurmCluster) -> Counter[str]:
    """Return how many requests for jobs and for nodes slurmctld has answered."""
    shown = re.findall(r"^\s+(REQUEST_(?:JOB|NODE)_INFO) +\( *\d+\) count:(\d+) ", cluster.run("sdiag"), re.MULTILINE)
    return Counter({name: int(count) for name, count in shown})


def refused(room: GuardedRoom, order: str = "soft_off") -> tuple[str, str]:
    answer = room.order(replace(OFF_3, order=NodeOrder(order)), OPEN)
    assert isinstance(answer, Refusal)
    return answer.rule, answer.message


def with_proven_standby(inventory: Inventory) -> Inventory:
    """Return the inventory in which every node has passed the standby test."""
    method = SleepMethod(NodeOrder.STANDBY, ("bmc",), enter_timeout_s=60, wake_timeout_s=60)
    machines = []
    for machine in inventory.machines:
        assert machine.enrolled is not None
        enrolled = replace(machine.enrolled, capabilities=(method.capability,))
        machines.append(
            replace(machine, hardware=replace(machine.hardware, sleep_methods=(method,)), enrolled=enrolled)
        )
    return replace(inventory, machines=tuple(machines))


def test_power_is_taken_from_a_drained_node_without_a_job_only(
    slurm_accounting: SlurmAccounting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster: SlurmCluster = slurm_accounting.cluster
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    with guarded_room(tmp_path, "node[1-3]") as room:
        room.scheduler = SlurmScheduler(SlurmSettings())
        assert refused(room) == ("no_job_now", "node3: is not drained: a job may start there")
        job = cluster.run("sbatch", "--parsable", "--exclusive", "--nodelist=node3", "--wrap=sleep 300").strip()
        try:
            state = ("squeue", "--noheader", "--format=%t", f"--jobs={job}")
            wait_until(lambda: cluster.run(*state).strip() == "R", what="the job to start")
            cluster.run("scontrol", "update", "nodename=node3", "state=drain", "reason=offpeak")
            for order in ("soft_off", "hard_off"):
                assert refused(room, order) == ("no_job_now", f"node3: runs {job}")
            # The way to a node is prepared before the last question, and nodes of this room have no ssh.
            room.inventory = with_proven_standby(room.inventory)
            standby = room.order(replace(OFF_3, subject="node2", order=NodeOrder.STANDBY), OPEN)
            assert isinstance(standby, Outcome)
            assert (standby.result, standby.message) == ("failed", "hardware.virtual: has no ssh")
            with monkeypatch.context() as nobody_answers:
                nobody_answers.setenv("PATH", str(tmp_path))
                output = "node3: cannot tell: squeue: not found on PATH"
                assert refused(room) == ("no_job_now", output)
            assert room.reported() == {}
            # A node with a job is spared, and keeps its power, while others that go down with it are not.
            cluster.run("scontrol", "update", "nodename=node1", "state=drain", "reason=offpeak")
            before = node_messages(cluster)
            answers = room.order_all([replace(OFF_3, subject=node) for node in ("node1", "node3")], OPEN)
            assert [type(answer) for answer in answers] == [Outcome, Refusal]
            assert node_messages(cluster) - before <= Counter({"REQUEST_JOB_INFO": 2, "REQUEST_NODE_INFO": 2})
            assert room.reported() == {"node1": [5]}
            cluster.run("scancel", job)
            show = ("sinfo", "--noheader", "--nodes=node3", "--partition=batch", "--format=%t")
            wait_until(lambda: cluster.run(*show).strip() == "drain", what="the node to be free")
            assert isinstance(room.order(OFF_3, OPEN), Outcome)
            wait_until(lambda: not room.do(lambda each: each.nodes["node3"].powered), what="the shutdown")
            with monkeypatch.context() as nobody_answers:
                nobody_answers.setenv("PATH", str(tmp_path))
                assert isinstance(room.order(replace(ON, subject="node3"), OPEN), Outcome)
            assert room.reported() == {"node1": [5], "node3": [5, 1]}
        finally:
            cluster.run("scancel", job)
            cluster.run("scontrol", "update", "nodename=node1,node3", "state=undrain")
