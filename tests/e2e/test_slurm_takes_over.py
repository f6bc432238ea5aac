"""Slurm's own pair: the backup slurmctld takes over while a wake and a sleep are under way, and the agent goes on."""

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from needed_programs import need
from node_story import FLAT, orders, sleeping
from powered_fixtures import StartPowered

from benchmarks.local_slurm.agent import agent, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.local_slurm.processes import running
from benchmarks.local_slurm.servers import HOST

ALL = ("node1", "node2", "node3", "node4")
BACKUP = "backup"
CONTROLLERS = f"""\
SlurmctldHost={HOST}(127.0.0.1)
SlurmctldHost={BACKUP}(127.0.0.2)
CommunicationParameters=NoCtldInAddrAny
SlurmctldTimeout=10
"""

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    """Nodes that take long enough to boot and to go off that a take-over falls into it."""
    need(["unshare"], packages="util-linux")
    return start_powered(
        PoweredPlan(nodes=len(ALL), boot_s=10.0, shutdown_s=6.0, suspend_timeout_s=8, settings=CONTROLLERS)
    )


@pytest.fixture
def _backup(cluster: PoweredCluster) -> Iterator[None]:
    """The backup slurmctld, on a host name and an address of its own."""
    hosts, conf, log = (cluster.folder / f"backup.{kind}" for kind in ("hosts", "conf", "log"))
    # A controller looks up its own name, also where slurm.conf has the address.
    hosts.write_text(f"127.0.0.1 localhost {HOST}\n127.0.0.2 {BACKUP}\n")
    conf.write_text(cluster.slurm.conf.read_text().replace("/slurmctld.", "/backup_slurmctld."))
    names = f"mount --bind {hosts} /etc/hosts; hostname {BACKUP}; exec slurmctld -D -f {conf} -L {log}"
    command = ("unshare", "--uts", "--mount", "sh", "-c", names)
    ready = lambda: "backup" in answering(cluster)  # noqa: E731
    with running(*command, log=log, ready=ready, environment=cluster.environment):
        yield


def answering(cluster: PoweredCluster) -> set[str]:
    """Return which of the primary and the backup controller answer."""
    command = ("scontrol", "ping")
    shown = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"Slurmctld\((\w+)\d*\) at \S+ is UP", shown))


def once_slurm_answers(cluster: PoweredCluster, condition: Callable[[], bool], *, what: str) -> None:
    """Wait for it; a command of Slurm may fail while no controller acts."""

    def holds() -> bool:
        with suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return condition()
        return False

    cluster.wait(holds, what=what)


def begin_wake_and_sleep(cluster: PoweredCluster) -> list[str]:
    """Return the jobs that ran on two nodes and that wait for the other two, while the first two go off."""
    once_slurm_answers(cluster, lambda: sleeping(cluster) == set(ALL), what="all nodes to sleep")
    begin_s = max((event.at_s for event in cluster.log.events()), default=0.0)
    (first,) = cluster.jobs.submit(nodes=2, seconds=1, on="node1,node2")
    cluster.wait(lambda: cluster.jobs.states()[first] == "COMPLETED", what="the first job")
    cluster.wait(lambda: "soft_off" in orders(cluster, "node1", begin_s), what="a sleep under way")
    (second,) = cluster.jobs.submit(nodes=2, seconds=1, on="node3,node4")
    submitted_s = time.time()
    cluster.wait(lambda: "on" in orders(cluster, "node3", begin_s), what="a wake under way")
    # A controller that is killed has lost what it had not yet written, some seconds.
    saved = cluster.folder / "state" / "job_state"
    cluster.wait(lambda: saved.stat().st_mtime > submitted_s, what="Slurm to have written the job")
    return [first, second]


def all_end_well(cluster: PoweredCluster, jobs: list[str]) -> None:
    """The jobs end, all nodes sleep, and a further job wakes some of them."""
    for job in jobs:
        once_slurm_answers(cluster, lambda job=job: cluster.jobs.states()[job] == "COMPLETED", what=f"job {job}")
    once_slurm_answers(cluster, lambda: sleeping(cluster) == set(ALL), what="all nodes to sleep again")
    (job,) = cluster.jobs.submit(nodes=3, seconds=1)
    cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="a job after the take-over")


@pytest.mark.nightly
@pytest.mark.usefixtures("_backup")
def test_takeover_and_a_primary_that_is_killed(cluster: PoweredCluster) -> None:
    with agent(cluster, write_site(cluster, FLAT)) as one:
        jobs = begin_wake_and_sleep(cluster)
        cluster.run("scontrol", "takeover")
        # On a busy machine a ping may come back without an answer while the controllers change places.
        cluster.wait(lambda: "backup" in answering(cluster), what="the backup to answer")
        all_end_well(cluster, jobs)
        assert one.runs
        # The primary controller goes on again, and is then killed.
        cluster.stop_server()
        cluster.start_server()
        jobs = begin_wake_and_sleep(cluster)
        cluster.kill9_server()
        all_end_well(cluster, jobs)
        cluster.wait(lambda: answering(cluster) == {"backup"}, what="the backup alone to answer")
        assert one.runs
        cluster.start_server()
        all_end_well(cluster, [])
