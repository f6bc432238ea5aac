"""Whether a node is free is what a running Slurm says; where it cannot say, nobody may think that it is."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.local_slurm.processes import reserved_ports, wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.plugin.contract.slurm_rights import AdminLevel, SlurmRights
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.plugin.scheduler.port import in_use, use_of
from offpeak.plugin.slurm.commands import CannotAskSlurm, SlurmIsSilent
from offpeak.plugin.slurm.nodes import find_node_uses
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.settings.agent import SlurmSettings

OPEN = "is not drained: a job may start there"
RECORD = (
    "NodeName=n1 Arch=x86_64 CPUAlloc=0 CPUEfctv=64 CPUTot=64 RealMemory=1000 AllocMem=0 "
    "State=IDLE+DRAIN Partitions=batch CfgTRES=cpu=64 AllocTRES= Reason=CPUAlloc=7 [root@2026-11-23T00:09:13]"
)
ADMINISTRATOR = SlurmRights("offpeak", AdminLevel.ADMINISTRATOR)


def find_all() -> SlurmRights:
    return ADMINISTRATOR


def used_of_one(rights: SlurmRights) -> str:
    return use_of("n1", find_node_uses(("n1",), lambda: rights))


def test_a_job_holds_its_node_only_and_a_free_one_is_drained(cluster: SlurmCluster) -> None:
    slurm = SlurmScheduler(SlurmSettings())
    job = cluster.run("sbatch", "--parsable", "--exclusive", "--nodelist=node2", "--wrap=sleep 300").strip()
    try:
        wait_until(lambda: in_use(slurm, "node2") == f"runs {job}", what="the job to start")
        assert in_use(slurm, "node3") == OPEN
        cluster.run("scontrol", "suspend", job)
        # Its node has no processors in use, but the planner, too, takes it for used and does not close it.
        uses = {node.name: node.use for node in slurm.view().nodes}
        assert (uses["node2"], uses["node3"]) == (NodeUse.USED, NodeUse.FREE)
        cluster.run("scontrol", "update", "nodename=node2", "state=drain", "reason=test")
        assert in_use(slurm, "node2") == f"runs {job}"
        cluster.run("scancel", job)
        wait_until(lambda: in_use(slurm, "node2") == "", what="the job to be gone")
    finally:
        cluster.run("scancel", job)
        cluster.run("scontrol", "update", "nodename=node2", "state=resume")
    assert in_use(slurm, "node2") == OPEN


def test_a_squeue_that_shows_only_its_header_makes_no_node_free(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suspended job is in no record of its node: scontrol, another program, must also show no job."""
    job = cluster.run("sbatch", "--parsable", "--exclusive", "--nodelist=node2", "--wrap=sleep 300").strip()
    slurm = SlurmScheduler(SlurmSettings())
    try:
        wait_until(lambda: in_use(slurm, "node2") == f"runs {job}", what="the job to start")
        cluster.run("scontrol", "suspend", job)
        cluster.run("scontrol", "update", "nodename=node2", "state=drain", "reason=test")
        (tmp_path / "squeue").write_text('#!/bin/sh\n/usr/bin/squeue "$@" | head -n 1\n')
        (tmp_path / "squeue").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        for ask in (slurm.view, lambda: in_use(slurm, "node2")):
            with pytest.raises(CannotAskSlurm, match="squeue: shows no job, and scontrol shows some"):
                ask()
    finally:
        cluster.run("scancel", job)
        cluster.run("scontrol", "update", "nodename=node2", "state=undrain")


def test_a_squeue_that_is_cut_between_two_jobs_makes_no_node_free(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = SlurmScheduler(SlurmSettings())
    # It is listed before the other.
    held = cluster.run("sbatch", "--parsable", "--hold", "--wrap=true").strip()
    job = cluster.run("sbatch", "--parsable", "--exclusive", "--nodelist=node2", "--wrap=sleep 300").strip()
    try:
        wait_until(lambda: in_use(slurm, "node2") == f"runs {job}", what="the job to start")
        cluster.run("scontrol", "suspend", job)
        cluster.run("scontrol", "update", "nodename=node2", "state=drain", "reason=test")
        cut = f"case $* in *--nodelist=*) cat ;; *) sed '/^{job} /,$d' ;; esac"
        (tmp_path / "squeue").write_text(f'#!/bin/sh\n/usr/bin/squeue "$@" | {cut}\n')
        (tmp_path / "squeue").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        assert in_use(slurm, "node2") == f"runs {job}"
    finally:
        cluster.run("scancel", held, job)
        cluster.run("scontrol", "update", "nodename=node2", "state=undrain")


@pytest.mark.parametrize("node", ["node99", "nowhere"])
def test_an_unknown_node_is_no_free_node(cluster: SlurmCluster, node: str) -> None:  # noqa: ARG001
    with pytest.raises(CannotAskSlurm):
        in_use(SlurmScheduler(SlurmSettings()), node)


def test_of_several_nodes_each_has_its_own_answer(cluster: SlurmCluster) -> None:
    """One is unknown; of two drained ones that with a suspended job, which has another node too, is spared."""
    slurm, names = SlurmScheduler(SlurmSettings()), ("node3", "node99", "node1", "node2")
    wide = ("sbatch", "--parsable", "--exclusive", "--nodes=2", "--nodelist=node[2-3]", "--wrap=sleep 300")
    job = cluster.run(*wide).strip()
    try:
        wait_until(lambda: in_use(slurm, "node3") == f"runs {job}", what="the job to start")
        cluster.run("scontrol", "suspend", job)
        cluster.run("scontrol", "update", "nodename=node[1-2]", "state=drain", "reason=test")
        uses = slurm.find_uses(names)
        assert {node: use for node, use in uses.items() if node != "node99"} == {
            "node1": "",
            "node2": f"runs {job}",
            "node3": f"runs {job}",
        }
        assert str(uses["node99"]) == "scontrol: Node node99 not found"
    finally:
        cluster.run("scancel", job)
        cluster.run("scontrol", "update", "nodename=node[1-2]", "state=undrain")


def test_several_nodes_are_not_free_while_slurmctld_does_not_answer(
    use_settings: Callable[[str], SlurmCluster],
) -> None:
    with reserved_ports(1) as (port,):
        use_settings(f"SlurmctldPort={port}")
        with pytest.raises(SlurmIsSilent):
            SlurmScheduler(SlurmSettings(timeout_s=1)).find_uses(("node1", "node2"))


def test_a_slurmctld_that_is_down_does_not_say_that_a_node_is_free(use_settings: Callable[[str], SlurmCluster]) -> None:
    with reserved_ports(1) as (port,):
        use_settings(f"SlurmctldPort={port}")
        with pytest.raises(SlurmIsSilent):
            in_use(SlurmScheduler(SlurmSettings(timeout_s=1)), "node1")


@pytest.fixture
def shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets what scontrol shows of a node; squeue shows no job, as it does to a user from whom jobs are hidden."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    show = f'case "$*" in *" jobs") echo No jobs in the system;; *) cat {tmp_path}/record;; esac'
    for name, body in (("squeue", "echo JOBID STATE NODELIST"), ("scontrol", show)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    return lambda record: (tmp_path / "record").write_text(f"{record}\n") and None


def test_record_of_a_free_node(shows: Callable[[str], None]) -> None:
    shows(RECORD)
    assert used_of_one(ADMINISTRATOR) == ""
    shows(RECORD.replace("IDLE+DRAIN", "IDLE"))
    assert used_of_one(ADMINISTRATOR) == OPEN
    shows(RECORD.replace("DRAIN", "DRAIN+MAINT"))
    assert used_of_one(ADMINISTRATOR) == "is reserved: see `scontrol show reservation`"


def test_records_that_do_not_match_the_nodes_make_none_free(
    shows: Callable[[str], None],
) -> None:
    """A forged record, in a reason of two lines, counts for no node; one that contradicts its jobs counts alone."""
    both = f"{RECORD}\n{RECORD.replace('n1', 'n2')}"
    shows(both)
    assert find_node_uses(("n1", "n2"), find_all) == {"n1": "", "n2": ""}
    shows(both.replace("CPUAlloc=0", "CPUAlloc=64", 1))
    uses = find_node_uses(("n1", "n2"), find_all)
    assert (type(uses["n1"]), uses["n2"]) == (CannotAskSlurm, "")
    for answer in (f"{both}\n{RECORD}", RECORD, both.replace("n2", "n3")):
        shows(answer)
        with pytest.raises(CannotAskSlurm, match="shows no node n1,n2"):
            find_node_uses(("n1", "n2"), find_all)


@pytest.mark.parametrize("answer", ["", "echo", "echo 7 RUNNING n2", "printf 'JOBID STATE NODELIST\\n7 RUNNING n'"])
def test_an_answer_without_its_header_or_its_end_makes_no_node_free(
    shows: Callable[[str], None], tmp_path: Path, answer: str
) -> None:
    """A suspended job is in squeue's answer only: the record of its node shows nothing."""
    shows(RECORD)
    (tmp_path / "squeue").write_text(f"#!/bin/sh\n{answer}\n")
    with pytest.raises(CannotAskSlurm, match="squeue: its answer is"):
        find_node_uses(("n1",), find_all)


def test_a_job_of_unclear_nodes_may_be_on_any(shows: Callable[[str], None], tmp_path: Path) -> None:
    shows(f"{RECORD}\n{RECORD.replace('n1', 'n2')}")
    for row in ("7 RUNNING ", "7 SUSPENDED n[1-", "7 A_NEW_STATE "):
        (tmp_path / "squeue").write_text(f"#!/bin/sh\necho JOBID STATE NODELIST\necho '{row}'\n")
        assert find_node_uses(("n1", "n2"), find_all) == {"n1": "runs 7", "n2": "runs 7"}


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
        used_of_one(ADMINISTRATOR)
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
        used_of_one(ADMINISTRATOR)


def test_a_user_from_whom_jobs_are_hidden_gets_an_error(shows: Callable[[str], None]) -> None:
    shows(RECORD)
    hidden = SlurmRights("offpeak", AdminLevel.NONE, ("cloud", "jobs"))
    with pytest.raises(CannotAskSlurm, match="hides the jobs of others from offpeak") as refused:
        used_of_one(hidden)
    assert refused.value.hint.startswith("sacctmgr modify user offpeak set adminlevel=Administrator")
    assert hidden.hidden_data == "PrivateData=jobs in slurm.conf hides what belongs to others from offpeak"
    assert ADMINISTRATOR.hidden_data == ""
