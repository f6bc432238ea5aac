"""Two head nodes with an agent each on one Slurm: one acts, whatever happens to it, to the database or to Slurm."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise

import pytest
from needed_programs import need
from node_story import sleeping
from postgres_server import new_postgres
from powered_fixtures import StartPowered

from benchmarks.failover import CHANGES
from benchmarks.local_slurm.agent import agent, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.node import OFF_W
from benchmarks.local_slurm.pair import LEASE_IS_LOST, HeadNode, HeadNodePair, head_node_pair
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.local_slurm.postgres import PostgresServer
from benchmarks.local_slurm.processes import reserved_ports, running, wait_until
from benchmarks.local_slurm.servers import HOST

ALL = ("node1", "node2", "node3", "node4")
LEASE_S = 5.0
WHILE_S = 3.0

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("nobody_suffers")]


@pytest.fixture(scope="module")
def usual_cluster(start_powered: StartPowered) -> PoweredCluster:
    need(["unshare"], packages="util-linux")
    return start_powered(PoweredPlan(nodes=len(ALL)))


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A database server of its own, so that it can end."""
    with new_postgres() as made:
        yield made


@pytest.fixture
def start_pair(cluster: PoweredCluster, server: PostgresServer) -> Iterator[Callable[[], HeadNodePair]]:
    """Starts both agents, the one of head1 first; at the end no order was sent without the lease."""
    with ExitStack() as made:

        def start() -> HeadNodePair:
            database = server.create("pair").rpartition("/")[2]
            pair = made.enter_context(head_node_pair(cluster, database, server.port, CHANGES))
            for node in pair.nodes:
                node.start()
                wait_until(lambda node=node: node.acts or node.stands_by, what=node.name, log=node.log)
            made.callback(check, pair)
            return pair

        yield start


def check(pair: HeadNodePair) -> None:
    """No order of an agent that another one has replaced, and no token twice."""
    assert pair.orders_without_lease() == []
    assert all(earlier < later for earlier, later in pairwise(pair.tokens()))


def all_sleep(cluster: PoweredCluster) -> None:
    cluster.wait(lambda: sleeping(cluster) == set(ALL), what="all nodes to sleep")


def run_job(cluster: PoweredCluster) -> None:
    (job,) = cluster.jobs.submit(nodes=2, seconds=1)
    cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="a job on nodes that slept")


def orders(node: HeadNode) -> int:
    return sum(entry.what == "order" for entry in node.entries())


def test_fail_over_in_the_middle_of_a_wake_and_fail_back(
    cluster: PoweredCluster, server: PostgresServer, start_pair: Callable[[], HeadNodePair]
) -> None:
    with server.up():
        pair = start_pair()
        one, other = pair.nodes
        assert (one.acts, other.stands_by) == (True, True)
        all_sleep(cluster)
        (job,) = cluster.jobs.submit(nodes=3, seconds=1)
        cluster.wait(lambda: any(e.text.startswith("on ") for e in one.entries()), what="a wake under way")
        one.send(signal.SIGKILL)
        one.wait()
        cluster.wait(lambda: other.acts, what="the other agent", seconds=2 * LEASE_S)
        cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="the job")
        all_sleep(cluster)
        one.start()
        cluster.wait(lambda: one.stands_by, what="the first to stand by")
        shown = one.run("status").stdout
        assert shown.startswith("lease        head1 stands by; head2 (process ")
        other.send(signal.SIGTERM)
        begun_s = time.monotonic()
        cluster.wait(lambda: one.acts, what="the first to act again")
        assert other.wait() == 0
        assert time.monotonic() - begun_s < LEASE_S + 10.0
        run_job(cluster)


def test_a_cap_of_a_dead_agent_ends(
    cluster: PoweredCluster, server: PostgresServer, start_pair: Callable[[], HeadNodePair]
) -> None:
    with server.up():
        pair = start_pair()
        one, other = pair.nodes
        cluster.wait(lambda: one.acts, what="the agent")
        (job,) = cluster.jobs.submit(on="node1", seconds=60)
        cluster.wait(lambda: cluster.jobs.states()[job] == "RUNNING", what="a node that is up")
        order = ("cap", "node1", "150W", "--for", "2h")
        cluster.wait(lambda: one.run(*order).returncode == 0, what="a cap")
        refused = other.run("cap", "node1", "off")
        assert "head2 stands by; head1 (process" in refused.stderr
        one.send(signal.SIGKILL)
        cluster.wait(lambda: other.acts, what="the other agent")
        # It ends what the dead one has left, as after a restart.
        cluster.wait(lambda: "no node is capped" in other.run("cap").stdout, what="the end of the cap")
        assert "uncap node1" in [entry.text for entry in other.entries()]
        cluster.jobs.cancel([job])


def test_split_brain_a_frozen_agent_and_one_that_is_cut_off_send_nothing(
    cluster: PoweredCluster, server: PostgresServer, start_pair: Callable[[], HeadNodePair]
) -> None:
    with server.up():
        pair = start_pair()
        one, other = pair.nodes
        one.send(signal.SIGSTOP)
        cluster.wait(lambda: other.acts, what="the other agent", seconds=3 * LEASE_S)
        run_job(cluster)
        before = orders(one)
        one.send(signal.SIGCONT)
        assert one.wait() == LEASE_IS_LOST
        assert orders(one) == before
        one.start()
        cluster.wait(lambda: one.stands_by, what="the first to stand by")
        other.link.cut()
        cluster.wait(lambda: one.acts, what="the first agent", seconds=3 * LEASE_S)
        before = orders(other)
        run_job(cluster)
        status = other.status()
        assert status is not None
        assert status.lease is not None
        assert "head2 gives no order" in status.lease.text
        assert orders(other) == before
        other.link.mend()
        assert other.wait() == LEASE_IS_LOST


def test_without_a_database_no_agent_acts_and_slurm_wakes_nodes(
    cluster: PoweredCluster, server: PostgresServer, start_pair: Callable[[], HeadNodePair]
) -> None:
    with server.up():
        pair = start_pair()
        one, other = pair.nodes
        all_sleep(cluster)
    cluster.wait(lambda: not one.acts, what="the end of the lease", seconds=2 * LEASE_S)
    before = orders(one), orders(other)
    # Slurm's own program wakes nodes for a job; nobody puts them to sleep again.
    run_job(cluster)
    time.sleep(WHILE_S)
    assert (orders(one), orders(other)) == before
    assert len(sleeping(cluster)) == len(ALL) - 2
    with server.up():
        cluster.wait(lambda: pair.active is not None, what="an agent that acts")
        all_sleep(cluster)


def test_the_database_fails_over_and_has_lost_the_last_take_over(
    cluster: PoweredCluster, server: PostgresServer, start_pair: Callable[[], HeadNodePair]
) -> None:
    with ExitStack() as servers, reserved_ports(1) as (port,):
        primary = servers.enter_context(ExitStack())
        primary.enter_context(server.up())
        pair = start_pair()
        one, other = pair.nodes
        replica = servers.enter_context(server.replica(port))
        servers.enter_context(replica.up())
        # What is committed from now on is lost.
        replica.run("ALTER SYSTEM SET primary_conninfo = ''")
        replica.run("SELECT pg_reload_conf()")
        wait_until(lambda: not server.has_replicas(), what="the replica to be cut off")
        one.send(signal.SIGKILL)
        cluster.wait(lambda: other.acts, what="the other agent", seconds=3 * LEASE_S)
        lost = pair.tokens()[-1]
        primary.close()
        replica.promote()
        for node in pair.nodes:
            node.link.mend(port)
        # The row names the dead agent: the one that acts does not trust its own lease.
        assert other.wait() == LEASE_IS_LOST
        other.start()
        cluster.wait(lambda: other.acts, what="the agent after the pause", seconds=10 * LEASE_S)
        assert pair.tokens()[-1] > lost
        run_job(cluster)


BACKUP = "backup"
CONTROLLERS = f"""\
SlurmctldHost={HOST}(127.0.0.1)
SlurmctldHost={BACKUP}(127.0.0.2)
CommunicationParameters=NoCtldInAddrAny
SlurmctldTimeout=10
"""


@pytest.fixture(scope="module")
def paired_controllers(start_powered: StartPowered) -> PoweredCluster:
    """A cluster with a primary and, once it is started, a backup slurmctld."""
    need(["unshare"], packages="util-linux")
    return start_powered(PoweredPlan(nodes=len(ALL), settings=CONTROLLERS))


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> PoweredCluster:
    """The cluster of the test."""
    name = "paired_controllers" if "takes_over" in request.node.name else "usual_cluster"
    made: PoweredCluster = request.getfixturevalue(name)
    return made


def test_slurm_takes_over_in_the_middle_of_an_order(cluster: PoweredCluster) -> None:
    conf, settings = cluster.slurm.conf, write_site(cluster, CHANGES)
    log = cluster.folder / "backup.log"
    # A controller looks up its own name, also where slurm.conf has the address.
    hosts = cluster.folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {HOST}\n127.0.0.2 {BACKUP}\n")
    names = f"mount --bind {hosts} /etc/hosts; hostname {BACKUP}; exec slurmctld -D -f {conf} -L {log}"
    command = ("unshare", "--uts", "--mount", "sh", "-c", names)

    def answers(controller: str) -> bool:
        command, options = ("scontrol", "ping"), {"capture_output": True, "text": True, "check": False}
        ping = subprocess.run(command, env=cluster.environment, **options).stdout  # type: ignore[call-overload]
        return "UP" in ping.partition(f"({controller}) at")[2].split()[:3]

    started = running(*command, log=log, ready=lambda: answers("backup"), environment=cluster.environment)
    with agent(cluster, settings) as one:
        with started:
            all_sleep(cluster)
            (job,) = cluster.jobs.submit(nodes=3, seconds=1)
            cluster.wait(lambda: any(cluster.nodes[name].watts > OFF_W for name in ALL), what="a node that boots")
            cluster.run("scontrol", "takeover")
            cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="the job")
            all_sleep(cluster)
        # The primary controller takes over again.
        cluster.wait(lambda: answers("primary") and "COMPLETED" in cluster.jobs.states().values(), what="Slurm")
        run_job(cluster)
        assert one.runs
