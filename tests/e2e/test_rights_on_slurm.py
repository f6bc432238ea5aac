"""What the agent's user may do in Slurm, by the level that sacctmgr gives it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from slurm_fixtures import SlurmAccounting

from sim_backend.local_slurm.processes import SEARCH_PATH, wait_until
from sim_backend.local_slurm.servers import SlurmCluster

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user: needs root")]


@pytest.fixture
def cluster(slurm_accounting: SlurmAccounting) -> Iterator[SlurmCluster]:
    cluster = slurm_accounting.cluster
    cluster.run("sacctmgr", "--immediate", "add", "account", "daemons")
    cluster.run("sacctmgr", "--immediate", "add", "user", "nobody", "account=daemons")
    yield cluster
    cluster.run("sacctmgr", "--immediate", "delete", "user", "nobody")
    cluster.run("sacctmgr", "--immediate", "delete", "account", "daemons")


@pytest.fixture
def private(cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """Hides jobs from those without a level."""
    replace(cluster, settings=f"{cluster.settings}\nPrivateData=jobs").write_conf()
    cluster.run("scontrol", "reconfigure")
    yield cluster
    cluster.write_conf()
    cluster.run("scontrol", "reconfigure")


ASKS = """
from offpeak.errors import SchedulerError
from offpeak.settings.schedulers import SlurmSettings
from plugin.slurm.nodes import node_in_use
from plugin.slurm.configuration import AdminLevel, SlurmRights
from plugin.slurm.scheduler import SlurmScheduler
from power.check.access import check_scheduler

def said(ask):
    try:
        return ask()
    except SchedulerError as problem:
        return f"{type(problem).__name__}: {problem}"

print(said(lambda: SlurmScheduler(SlurmSettings()).in_use("node3")))
# As if the level had been lost a moment ago, or had been read wrongly.
print(said(lambda: node_in_use("node3", SlurmRights("nobody", AdminLevel.ADMINISTRATOR))))
print(check_scheduler().verdict)
"""


def requested_by_nobody(cluster: SlurmCluster) -> list[str]:
    """Return the results of the last rule and of `offpeak check` for a user without rights."""
    arguments = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", ASKS]
    done = subprocess.run(arguments, env=cluster.environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def level(cluster: SlurmCluster, name: str) -> None:
    cluster.run("sacctmgr", "--immediate", "modify", "user", "nobody", "set", f"adminlevel={name}")


def test_a_node_whose_jobs_are_hidden_is_not_free(private: SlurmCluster) -> None:
    job = private.run("sbatch", "--parsable", "--exclusive", "--nodelist=node3", "--wrap=sleep 300").strip()
    try:
        show = ("squeue", "--noheader", "--format=%t", f"--jobs={job}")
        wait_until(lambda: private.run(*show).strip() == "R", what="the job to start")
        private.run("scontrol", "update", "nodename=node3", "state=drain", "reason=offpeak: test")
        level(private, "None")
        hidden = "CannotAskSlurm: squeue: PrivateData=jobs in slurm.conf hides the jobs of others from nobody"
        allocated = (
            "CannotAskSlurm: scontrol: node3 is ALLOCATED+DRAIN CPUAlloc=4 AllocTRES=cpu=4, "
            "but squeue shows no job there"
        )
        assert requested_by_nobody(private) == [hidden, allocated, "failed"]
        # A suspended job has no processors of its node: only squeue shows that it is there.
        private.run("scontrol", "suspend", job)
        assert requested_by_nobody(private)[0] == hidden
        level(private, "Administrator")
        assert requested_by_nobody(private) == [f"runs {job}", f"runs {job}", "ok"]
    finally:
        private.run("scancel", job)
        private.run("scontrol", "update", "nodename=node3", "state=resume")


def may(cluster: SlurmCluster, *update: str) -> bool:
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "scontrol", "update", *update],
        env={"PATH": SEARCH_PATH, "LC_ALL": "C", "SLURM_CONF": str(cluster.conf)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0


def test_jobs_need_an_operator_and_nodes_an_administrator(cluster: SlurmCluster) -> None:
    job = cluster.run("sbatch", "--parsable", "--begin=now+1hour", "--wrap=true", "--output=/dev/null").strip()
    seen = {}
    try:
        for name in ("None", "Operator", "Administrator"):
            level(cluster, name)
            rights = (
                may(cluster, f"jobid={job}", "priority=4000"),
                may(cluster, f"jobid={job}", "starttime=now+2hours"),
                may(cluster, "nodename=node4", "state=drain", "reason=offpeak: test"),
                may(cluster, "nodename=node4", "state=undrain"),
            )
            seen[name] = rights
    finally:
        cluster.run("scancel", job)
    assert seen == {
        "None": (False, False, False, False),
        "Operator": (True, True, False, False),
        "Administrator": (True, True, True, True),
    }
