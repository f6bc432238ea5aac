"""What the agent's user may do in Slurm, by the level that sacctmgr gives it."""

import os
import subprocess
from collections.abc import Iterator

import pytest
from needed_programs import SEARCH_PATH
from slurm_cluster import Cluster
from slurm_fixtures import SlurmAccounting

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user: needs root")


@pytest.fixture
def cluster(slurm_accounting: SlurmAccounting) -> Iterator[Cluster]:
    cluster = slurm_accounting.cluster
    cluster.run("sacctmgr", "--immediate", "add", "account", "daemons")
    cluster.run("sacctmgr", "--immediate", "add", "user", "nobody", "account=daemons")
    yield cluster
    cluster.run("sacctmgr", "--immediate", "delete", "user", "nobody")
    cluster.run("sacctmgr", "--immediate", "delete", "account", "daemons")


def may(cluster: Cluster, *update: str) -> bool:
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "scontrol", "update", *update],
        env={"PATH": SEARCH_PATH, "LC_ALL": "C", "SLURM_CONF": str(cluster.conf)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0


def test_jobs_need_an_operator_and_nodes_an_administrator(cluster: Cluster) -> None:
    job = cluster.run("sbatch", "--parsable", "--begin=now+1hour", "--wrap=true", "--output=/dev/null").strip()
    seen = {}
    try:
        for level in ("None", "Operator", "Administrator"):
            cluster.run("sacctmgr", "--immediate", "modify", "user", "nobody", "set", f"adminlevel={level}")
            rights = (
                may(cluster, f"jobid={job}", "priority=4000"),
                may(cluster, f"jobid={job}", "starttime=now+2hours"),
                may(cluster, "nodename=node4", "state=drain", "reason=offpeak: test"),
                may(cluster, "nodename=node4", "state=undrain"),
            )
            seen[level] = rights
    finally:
        cluster.run("scancel", job)
    assert seen == {
        "None": (False, False, False, False),
        "Operator": (True, True, False, False),
        "Administrator": (True, True, True, True),
    }
