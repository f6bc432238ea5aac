"""Two clusters of one slurmdbd: the broker at the one reaches the other by `sbatch -M`, without a login there."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from slurm_fixtures import SlurmAccounting

from benchmarks.local_slurm.processes import ME, reserved_ports, wait_until
from benchmarks.local_slurm.servers import SlurmCluster, slurmctld, slurmd, wait_for_nodes
from offpeak.plugin.federation.sites import Site, parse_reach
from offpeak.plugin.scheduler.batch import JobSubmission
from offpeak.services.broker.site_commands import (
    NotKnown,
    SiteCommands,
    SiteRefused,
    Submitter,
    commands_of_site,
    this_account,
)

SCRIPT = "#!/bin/bash\n#SBATCH --ntasks=1 --output=/dev/null --chdir=/\necho $SLURM_CLUSTER_NAME $1 >>{ran}\nsleep 60\n"


@pytest.fixture(scope="module")
def other(slurm_accounting: SlurmAccounting) -> Iterator[SlurmCluster]:
    here = slurm_accounting.cluster
    folder = here.folder / "other"
    folder.mkdir()
    with reserved_ports(2) as (port, node_port):
        cluster = SlurmCluster(folder, here.munge, port, (node_port,), here.settings, name="other")
        cluster.write_conf()
        here.run("sacctmgr", "--immediate", "add", "cluster", cluster.name)
        with slurmctld(cluster), slurmd(cluster, 1):
            wait_for_nodes(cluster)
            wait_until(lambda: _is_known(here, cluster), what="slurmdbd to know where the other cluster is")
            yield cluster


def _is_known(here: SlurmCluster, other: SlurmCluster) -> bool:
    arguments = ("sacctmgr", "--noheader", "--parsable2", "show", "cluster", other.name, "format=controlport")
    return here.run(*arguments).strip() == str(other.port)


@pytest.fixture
def route(slurm_accounting: SlurmAccounting, monkeypatch: pytest.MonkeyPatch) -> SiteCommands:
    for name, value in slurm_accounting.cluster.environment.items():
        monkeypatch.setenv(name, value)
    return as_user("nobody", "other")


def as_user(user: str, cluster: str) -> SiteCommands:
    """Return the site, whose jobs this process submits with the rights that this user has in slurmdbd."""
    site = Site("fjord", 1, 100.0, cores_per_unit=4, reach=parse_reach(f"slurm -M {cluster}"))
    made = commands_of_site(site, agent_socket=Path("/nonexistent"))
    return replace(made, submitter=Submitter(user, right=""))


def test_a_job_runs_at_the_other_cluster_and_is_found_followed_and_cancelled(
    slurm_accounting: SlurmAccounting, other: SlurmCluster, route: SiteCommands
) -> None:
    ran = other.folder / "ran"
    submission = JobSubmission("m-1", SCRIPT.format(ran=ran), "job.sh", ("word",), 600, None, 4)
    job = asyncio.run(route.submit(submission))
    wait_until(lambda: ran.exists() and "word" in ran.read_text(), what="the job to run there")
    standing = asyncio.run(route.find("m-1"))
    assert standing is not None
    assert (standing.job, standing.state) == (job, "RUNNING")
    assert asyncio.run(route.find("m-2")) is None
    assert asyncio.run(route.cancel(job)) == "cancelled"
    wait_until(lambda: _ended(route, job), what="the job to be cancelled")
    assert "m-1" not in slurm_accounting.cluster.run("squeue", "--noheader", "--states=all", "--format=%k")


def _ended(route: SiteCommands, job: str) -> bool:
    standing = asyncio.run(route.find_by_id(job))
    return standing is not None and standing.state == "CANCELLED"


@pytest.mark.usefixtures("route")
def test_a_cluster_that_slurmdbd_does_not_know_has_no_job() -> None:
    unknown = as_user("nobody", "unheard")
    with pytest.raises(SiteRefused, match="unheard"):
        asyncio.run(unknown.submit(JobSubmission("m-3", SCRIPT, "job.sh", (), 600, None, 4)))
    with pytest.raises(NotKnown):
        asyncio.run(unknown.find("m-3"))


@pytest.mark.parametrize(("level", "right"), [("None", ""), ("Operator", "Slurm Operator"), ("Admin", "Administrator")])
def test_an_account_with_an_admin_level_submits_nothing(
    slurm_accounting: SlurmAccounting, route: SiteCommands, other: SlurmCluster, level: str, right: str
) -> None:
    here = slurm_accounting.cluster
    here.run("sacctmgr", "--immediate", "add", "account", "portals")
    here.run("sacctmgr", "--immediate", "add", "user", "games", "account=portals", f"adminlevel={level}")
    try:
        games = as_user("games", "other")
        wait_until(lambda: "games" in _as_games(other), what="slurmctld to know the user")
        if right:
            with pytest.raises(SiteRefused, match=f"not submitted as games, which is .*{right}"):
                asyncio.run(games.submit(JobSubmission(f"level-{level}", SCRIPT, "job.sh", (), 600, None, 4)))
        else:
            job = asyncio.run(games.submit(JobSubmission(f"level-{level}", SCRIPT, "job.sh", (), 600, None, 4)))
            assert asyncio.run(route.cancel(job)) == "cancelled"
        assert (asyncio.run(route.find(f"level-{level}")) is None) == bool(right)
    finally:
        here.run("sacctmgr", "--immediate", "delete", "user", "games")
        here.run("sacctmgr", "--immediate", "delete", "account", "portals")


def _as_games(cluster: SlurmCluster) -> str:
    """Return what slurmctld shows of that user to the user itself, where this process may act as another user."""
    arguments = ("scontrol", "show", "assoc_mgr", "users=games", "flags=users")
    return cluster.run(
        *(("setpriv", "--reuid=games", "--regid=60", "--clear-groups") if ME == "root" else ()), *arguments
    )


@pytest.mark.usefixtures("other", "route")
def test_slurm_user_and_root_submit_nothing(tmp_path: Path) -> None:
    for account in (Submitter(ME, right=""), this_account(tmp_path)):
        with pytest.raises(SiteRefused, match=f"not submitted as {ME}, which is (SlurmUser|root|the agent's user)"):
            asyncio.run(
                replace(as_user(ME, "other"), submitter=account).submit(JobSubmission("s", SCRIPT, "j", (), 60, 1, 4))
            )


def test_a_line_break_in_a_comment_forges_no_job(other: SlurmCluster, route: SiteCommands) -> None:
    victim = asyncio.run(route.submit(JobSubmission("victim-1", SCRIPT, "job.sh", (), 600, None, 4)))
    forged = f"x\n{victim}|COMPLETED|offpeak:key=other-1\n4711|RUNNING|offpeak:key=victim-2\n"
    try:
        submission = JobSubmission(
            "forger-1", SCRIPT, f"a\n{victim}|b", (), 600, None, 4, comment=f"{forged} offpeak:key=victim-1"
        )
        forger = asyncio.run(route.submit(submission))
        for key, job in (("victim-1", victim), ("forger-1", forger), ("other-1", None), ("victim-2", None)):
            standing = asyncio.run(route.find(key))
            assert (standing and standing.job) == job
        standing = asyncio.run(route.find_by_id(victim))
        assert standing is not None
        assert standing.state in ("PENDING", "RUNNING")
        assert asyncio.run(route.find_by_id("4711")) is None
    finally:
        other.run("scancel", "--user", ME)


@pytest.mark.skipif(os.geteuid() != 0, reason="submits as another user: needs root")
def test_jobs_of_other_accounts_are_neither_found_nor_cancelled(other: SlurmCluster, route: SiteCommands) -> None:
    submits = (
        "sbatch",
        "--parsable",
        "--begin=now+1hour",
        "--chdir=/",
        "--wrap=true",
        "--comment=offpeak:key=theirs-1",
    )
    theirs = other.run("setpriv", "--reuid=games", "--regid=60", "--clear-groups", *submits).strip()
    try:
        assert asyncio.run(route.find("theirs-1")) is None
        assert asyncio.run(route.find_by_id(theirs)) is None
        with suppress(SiteRefused):
            asyncio.run(route.cancel(theirs))
        assert other.run("squeue", "--noheader", f"--jobs={theirs}", "--format=%T").strip() == "PENDING"
    finally:
        other.run("scancel", theirs)
