"""Two head nodes with an agent each on one Slurm: one acts, whatever happens to it, to the database or to Slurm."""

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
import requests
from needed_programs import need
from node_story import sleeping
from postgres_server import new_postgres
from powered_fixtures import StartPowered

from benchmarks.failover import CHANGES
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.pair import FROZEN, LEASE_IS_LOST, HeadNode, HeadNodePair, head_node_pair
from benchmarks.local_slurm.plan import REPOSITORY, PoweredPlan
from benchmarks.local_slurm.postgres import PostgresServer
from benchmarks.local_slurm.processes import listens, reserved_ports, running, wait_until

ALL = ("node1", "node2", "node3", "node4")
WHILE_S = 3.0
AWAY_S = 60.0
LATE_S = 8.0
REFUSAL = "a server that had failed accepts writes (timeline 1, another has 2)"

StartPair = Callable[..., HeadNodePair]

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    need(["unshare"], packages="util-linux")
    return start_powered(PoweredPlan(nodes=len(ALL)))


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A database server of its own, so that it can end."""
    with new_postgres() as made:
        yield made


@pytest.fixture
def start_pair(cluster: PoweredCluster, server: PostgresServer) -> Iterator[StartPair]:
    """Starts both agents, the one of head1 first; at the end no order was sent without the lease.

    Its arguments are the ports of further servers of the database.
    """
    with ExitStack() as made:

        def start(*more_ports: int) -> HeadNodePair:
            database = server.create("pair").rpartition("/")[2]
            pair = made.enter_context(head_node_pair(cluster, database, (server.port, *more_ports), CHANGES))
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


def finds_the_server_that_writes(cluster: PoweredCluster, server: PostgresServer, page: str) -> None:
    """Use the documented addresses of two servers, the first of which does not answer."""
    names = {"db1": "127.0.0.2", "db2": "127.0.0.1", ":5433": f":{server.port}", "/offpeak?": "/pair?"}
    urls = re.findall(r"postgresql://\S*db1\S*db2[^\s\"`]*", page)
    assert len(urls) == 2
    for url in urls:
        for name, ours in names.items():
            url = url.replace(name, ours)
        command = (*cluster.offpeak, "ledger", "states", "--ledger", url)
        environment = {**cluster.environment, "PYTHONPATH": str(REPOSITORY), "PGPORT": str(server.port)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), url
        assert "node1" in done.stdout


def says_who_acts(cluster: PoweredCluster, pair: HeadNodePair, page: str) -> None:
    """See both head nodes say what the page shows, in the commands and metrics that it names."""
    shown = {
        "head1": re.findall(r"On `head1` the line is `(.*?)`", page),
        "head2": re.findall(r"^\$ offpeak status +# on head2\nlease +(.*)$", page, re.MULTILINE),
    }
    acts, has_peer = re.findall(r"`(offpeak_agent_acts|offpeak_agent_has_peer)`", page)
    for node, is_active in zip(pair.nodes, (1, 0), strict=True):
        other = pair.other(node).process
        assert other is not None
        line = re.sub(r"process \d+", f"process {other.pid}", *shown[node.name])
        cluster.wait(lambda node=node, line=line: f"lease        {line}\n" in node.run("status").stdout, what=line)
        assert line in " ".join(node.run("check", "node1").stdout.split())
        with reserved_ports(1) as (port,):
            command = (*cluster.offpeak, "page", "--listen", f"127.0.0.1:{port}", "--config", str(node.settings))
            log = node.settings.with_suffix(".page.log")
            environment = {**cluster.environment, "PYTHONPATH": str(REPOSITORY)}
            with running(*command, log=log, ready=lambda port=port: listens(port), environment=environment):
                text = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=300).text
        assert f"\n{acts} {is_active}.0\n" in text
        assert f"\n{has_peer} 1.0\n" in text


def test_fail_over_in_the_middle_of_a_wake_and_fail_back(
    cluster: PoweredCluster, server: PostgresServer, start_pair: StartPair, repository: Path
) -> None:
    with server.up():
        pair = start_pair()
        one, other = pair.nodes
        assert (one.acts, other.stands_by) == (True, True)
        page = (repository / "docs/how-to/two-head-nodes.md").read_text(encoding="utf-8")
        finds_the_server_that_writes(cluster, server, page)
        says_who_acts(cluster, pair, page)
        all_sleep(cluster)
        (job,) = cluster.jobs.submit(nodes=3, seconds=1)
        cluster.wait(lambda: any(e.text.startswith("on ") for e in one.entries()), what="a wake under way")
        one.send(signal.SIGKILL)
        one.wait()
        cluster.wait(lambda: other.acts, what="the other agent")
        cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="the job")
        all_sleep(cluster)
        one.start()
        cluster.wait(lambda: one.stands_by, what="the first to stand by")
        shown = one.run("status").stdout
        assert shown.startswith("lease        head1 stands by; head2 (process ")
        other.send(signal.SIGTERM)
        cluster.wait(lambda: one.acts, what="the first to act again")
        assert other.wait() == 0
        run_job(cluster)


def test_a_cap_of_a_dead_agent_ends(cluster: PoweredCluster, server: PostgresServer, start_pair: StartPair) -> None:
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
        cluster.wait(lambda: "uncap node1" in [entry.text for entry in other.entries()], what="its entry")
        cluster.jobs.cancel([job])


def test_split_brain_a_frozen_agent_and_one_that_is_cut_off_send_nothing(
    cluster: PoweredCluster, server: PostgresServer, start_pair: StartPair
) -> None:
    with server.up():
        pair = start_pair()
        one, other = pair.nodes
        one.send(signal.SIGSTOP)
        cluster.wait(lambda: other.acts, what="the other agent")
        run_job(cluster)
        before = orders(one)
        one.send(signal.SIGCONT)
        assert one.wait() == FROZEN
        assert orders(one) == before
        one.start()
        cluster.wait(lambda: one.stands_by, what="the first to stand by")
        other.link.cut()
        cluster.wait(lambda: one.acts, what="the first agent")
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
    cluster: PoweredCluster, server: PostgresServer, start_pair: StartPair
) -> None:
    with server.up():
        pair = start_pair()
        one, other = pair.nodes
        all_sleep(cluster)
    gone_s = time.monotonic()
    cluster.wait(lambda: not one.acts, what="the end of the lease")
    before = orders(one), orders(other)
    # Slurm's own program wakes nodes for a job; nobody puts them to sleep again.
    run_job(cluster)
    time.sleep(max(WHILE_S, gone_s + AWAY_S - time.monotonic()))
    assert (orders(one), orders(other)) == before
    assert len(sleeping(cluster)) == len(ALL) - 2
    with server.up():
        cluster.wait(lambda: pair.active is not None, what="an agent that acts")
        all_sleep(cluster)


@contextmanager
def replicated(server: PostgresServer) -> Iterator[tuple[ExitStack, PostgresServer]]:
    """Run the server and a replica of it: the stack ends the server alone."""
    with reserved_ports(1) as (port,), ExitStack() as primary:
        primary.enter_context(server.up())
        replica = server.new_replica(port)
        with replica.up():
            yield primary, replica


def wait_for_a_holder(cluster: PoweredCluster, pair: HeadNodePair) -> HeadNode:
    """Return the head node that acts, and whose other one stands by, with agents that systemd starts again."""

    def is_whole() -> bool:
        pair.revive()
        return {(node.acts, node.stands_by) for node in pair.nodes} == {(True, False), (False, True)}

    cluster.wait(is_whole, what="an agent that acts and one that stands by")
    return pair.active


def test_the_primary_server_is_killed_in_the_middle_of_a_wake(
    cluster: PoweredCluster, server: PostgresServer, start_pair: StartPair
) -> None:
    with replicated(server) as (primary, replica):
        pair = start_pair(replica.port)
        all_sleep(cluster)
        (job,) = cluster.jobs.submit(nodes=3, seconds=1)
        one = pair.nodes[0]
        cluster.wait(lambda: any(e.text.startswith("on ") for e in one.entries()), what="a wake under way")
        server.kill()
        primary.close()
        replica.promote()
        wait_for_a_holder(cluster, pair)
        cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="the job")
        all_sleep(cluster)
        run_job(cluster)
        # The failed server is started again by somebody who does not know: it still accepts writes.
        with server.up():
            one, other = pair.nodes
            for node in pair.nodes:
                node.links[1].cut()
            cluster.wait(lambda: not one.acts and not other.acts, what="the end of the lease")
            for node in pair.nodes:
                node.links[1].mend()
            other.send(signal.SIGKILL)
            other.wait()
            other.start()
            for node in pair.nodes:
                cluster.wait(lambda node=node: REFUSAL in node.log.read_text(), what=f"the refusal of {node.name}")
            before = orders(one), orders(other)
            run_job(cluster)
            pair.revive()
            assert (orders(one), orders(other)) == before
        wait_for_a_holder(cluster, pair)
        all_sleep(cluster)


def test_the_replica_has_not_received_the_last_take_over(
    cluster: PoweredCluster, server: PostgresServer, start_pair: StartPair
) -> None:
    with replicated(server) as (primary, replica):
        pair = start_pair(replica.port)
        one, other = pair.nodes
        all_sleep(cluster)
        replica.cut_off_from_primary()
        one.link.cut()
        cluster.wait(lambda: other.acts, what="the other agent")
        (job,) = cluster.jobs.submit(nodes=3, seconds=1)
        # Slurm's resume program may be first: the agent of its host, which it asks, is cut off.
        cluster.wait(lambda: sleeping(cluster) != set(ALL), what="a wake under way")
        server.kill()
        primary.close()
        replica.promote()
        # The replica knows only the first as the holder, and the first never knew that it was replaced.
        one.link.mend()
        wait_for_a_holder(cluster, pair)
        cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="the job")
        all_sleep(cluster)
        run_job(cluster)


def test_an_order_to_slurm_does_not_outlive_the_lease_of_its_agent(
    cluster: PoweredCluster, server: PostgresServer, start_pair: StartPair
) -> None:
    """The order leaves the host late, as behind a bad network; the agent has lost the lease by then, and has ended."""
    with server.up():
        pair = start_pair()
        one, other = pair.nodes
        cluster.wait(lambda: one.acts, what="the first agent")
        (job,) = cluster.jobs.submit(nodes=len(ALL), seconds=4)
        cluster.wait(lambda: cluster.jobs.states()[job] == "RUNNING", what="nodes that are up")
        one.delay_changes(LATE_S)
        cluster.wait(lambda: one.delays_a_change, what="an order to close nodes")
        one.link.cut()
        cluster.wait(lambda: other.acts, what="the other agent")
        time.sleep(LATE_S)
        assert pair.orders_without_lease() == []
        one.link.mend()
        assert one.wait() == LEASE_IS_LOST
