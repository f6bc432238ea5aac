"""Whether a node is free is what a running Slurm says; where it cannot say, nobody may think that it is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.local_slurm.processes import reserved_ports, wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.settings.agent import SlurmSettings
from plugin.slurm.commands import CannotAskSlurm, SlurmIsSilent
from plugin.slurm.configuration import AdminLevel, SlurmRights
from plugin.slurm.nodes import node_in_use
from plugin.slurm.scheduler import SlurmScheduler

OPEN = "is not drained: a job may start there"
RECORD = (
    "NodeName=n1 Arch=x86_64 CPUAlloc=0 CPUEfctv=64 CPUTot=64 RealMemory=1000 AllocMem=0 "
    "State=IDLE+DRAIN Partitions=batch CfgTRES=cpu=64 AllocTRES= Reason=CPUAlloc=7 [root@2026-11-23T00:09:13]"
)
ALL = SlurmRights("offpeak", AdminLevel.ADMINISTRATOR)


def test_a_job_holds_its_node_only_and_a_free_one_is_drained(cluster: SlurmCluster) -> None:
    in_use = SlurmScheduler(SlurmSettings()).in_use
    job = cluster.run("sbatch", "--parsable", "--exclusive", "--nodelist=node2", "--wrap=sleep 300").strip()
    try:
        wait_until(lambda: in_use("node2") == f"runs {job}", what="the job to start")
        assert in_use("node3") == OPEN
        cluster.run("scontrol", "suspend", job)
        cluster.run("scontrol", "update", "nodename=node2", "state=drain", "reason=test")
        assert in_use("node2") == f"runs {job}"
        cluster.run("scancel", job)
        wait_until(lambda: in_use("node2") == "", what="the job to be gone")
    finally:
        cluster.run("scancel", job)
        cluster.run("scontrol", "update", "nodename=node2", "state=resume")
    assert in_use("node2") == OPEN


@pytest.mark.parametrize("node", ["node99", "nowhere"])
def test_an_unknown_node_is_no_free_node(cluster: SlurmCluster, node: str) -> None:  # noqa: ARG001
    with pytest.raises(CannotAskSlurm):
        SlurmScheduler(SlurmSettings()).in_use(node)


def test_a_slurmctld_that_is_down_does_not_say_that_a_node_is_free(use_settings: Callable[[str], SlurmCluster]) -> None:
    with reserved_ports(1) as (port,):
        use_settings(f"SlurmctldPort={port}")
        with pytest.raises(SlurmIsSilent):
            SlurmScheduler(SlurmSettings(timeout_s=1)).in_use("node1")


@pytest.fixture
def shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets what scontrol shows of a node; squeue shows no job, as it does to a user from whom jobs are hidden."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name, body in (("squeue", ""), ("scontrol", f"cat {tmp_path}/record")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    return lambda record: (tmp_path / "record").write_text(f"{record}\n") and None


def test_record_of_a_free_node(shows: Callable[[str], None]) -> None:
    shows(RECORD)
    assert node_in_use("n1", ALL) == ""
    shows(RECORD.replace("IDLE+DRAIN", "IDLE"))
    assert node_in_use("n1", ALL) == OPEN
    shows(RECORD.replace("DRAIN", "DRAIN+MAINT"))
    assert node_in_use("n1", ALL) == "is reserved: see `scontrol show reservation`"


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("CPUAlloc=0", "CPUAlloc=64"),
        ("AllocMem=0", "AllocMem=500"),
        ("AllocTRES= ", "AllocTRES=gres/gpu=1 "),
        ("IDLE+DRAIN", "ALLOCATED+DRAIN"),
        ("IDLE+DRAIN", "MIXED+DRAIN"),
        ("IDLE+DRAIN", "IDLE+COMPLETING+DRAIN"),
    ],
)
def test_an_allocated_node_without_a_visible_job_is_not_free(shows: Callable[[str], None], was: str, now: str) -> None:
    shows(RECORD.replace(was, now))
    with pytest.raises(CannotAskSlurm, match="but squeue shows no job there") as refused:
        node_in_use("n1", ALL)
    assert now.strip() in str(refused.value)
    assert "PrivateData" in refused.value.hint


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("CPUAlloc=0 CPUEfctv", "CPUEfctv", "shows n1 without CPUAlloc"),
        ("AllocTRES= ", "", "shows n1 without AllocTRES"),
        ("IDLE+DRAIN", "IDLE+DRAIN+REBOOT_ISSUED", "shows n1 in the unknown state IDLE"),
        ("NodeName=n1", "NodeName=n2", "shows no node n1"),
        (RECORD, "", "shows no node n1"),
    ],
)
def test_node_with_an_unclear_record_is_not_free(
    shows: Callable[[str], None], was: str, now: str, message: str
) -> None:
    shows(RECORD.replace(was, now))
    with pytest.raises(CannotAskSlurm, match=message):
        node_in_use("n1", ALL)


def test_a_user_from_whom_jobs_are_hidden_gets_an_error(shows: Callable[[str], None]) -> None:
    shows(RECORD)
    hidden = SlurmRights("offpeak", AdminLevel.NONE, ("cloud", "jobs"))
    with pytest.raises(CannotAskSlurm, match="hides the jobs of others from offpeak") as refused:
        node_in_use("n1", hidden)
    assert refused.value.hint.startswith("sacctmgr modify user offpeak set adminlevel=Administrator")
    ((problem, _),) = hidden.problems
    assert problem == "PrivateData=jobs in slurm.conf hides what belongs to others from offpeak"
    assert ALL.problems == ()
