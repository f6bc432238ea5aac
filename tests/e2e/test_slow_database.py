"""An agent whose ledger is a PostgreSQL that answers slowly: nodes are woken in time for Slurm."""

import time
from collections.abc import Iterator

import psycopg
import pytest
from node_story import sleeping
from postgres_server import new_postgres
from powered_fixtures import StartPowered
from sqlalchemy import make_url

from benchmarks.failover import CHANGES
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.pair import HeadNode, head_node_pair
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.local_slurm.processes import wait_until
from offpeak.model.clock import boot_s

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]

ALL = tuple(f"node{number}" for number in range(1, 9))
ANSWER_S = 0.4
TRANSACTION_S = 5 * ANSWER_S
RESUME_TIMEOUT_S = 20
GIVE_UP_S = 3 * RESUME_TIMEOUT_S


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(PoweredPlan(nodes=len(ALL), resume_timeout_s=RESUME_TIMEOUT_S))


@pytest.fixture
def database() -> Iterator[str]:
    """The URL of an empty database."""
    with new_postgres() as server, server.up():
        yield server.create("slow")


@pytest.fixture
def agent(cluster: PoweredCluster, database: str) -> Iterator[HeadNode]:
    port = make_url(database).port
    assert port is not None
    with head_node_pair(cluster, "slow", (port,), CHANGES, lease="30s") as pair:
        node = pair.nodes[0]
        node.start()
        wait_until(lambda: node.acts, what=node.name, log=node.log)
        yield node


def test_all_nodes_wake_for_a_job_before_slurm_gives_up(
    cluster: PoweredCluster, database: str, agent: HeadNode
) -> None:
    """The agent still answers meanwhile, and each order is in the ledger."""
    cluster.wait(lambda: sleeping(cluster) == set(ALL), what="all nodes to sleep")
    agent.link.delay_s = ANSWER_S / 2
    begun_s = boot_s()
    (job,) = cluster.jobs.submit(nodes=len(ALL), seconds=1)
    answers_s = []
    while cluster.jobs.states()[job] != "COMPLETED":
        assert boot_s() - begun_s < GIVE_UP_S, agent.log.read_text()[-3000:]
        requested_s = boot_s()
        assert agent.acts
        answers_s.append(boot_s() - requested_s)
        time.sleep(0.1)
    wakes = [entry for entry in agent.entries() if entry.at_s > begun_s and entry.text.startswith("on ")]
    assert {wake.text for wake in wakes} == {f"on {node}" for node in ALL}
    # One transaction of a few answers for the records of all wakes, not one for each.
    assert max(wake.at_s for wake in wakes) - min(wake.at_s for wake in wakes) < TRANSACTION_S
    assert max(wake.at_s for wake in wakes) - begun_s < RESUME_TIMEOUT_S
    assert max(answers_s) < TRANSACTION_S
    agent.link.delay_s = 0.0
    cluster.wait(lambda: sleeping(cluster) == set(ALL), what="all nodes to sleep again")
    with psycopg.connect(database) as connection:
        done = "SELECT subject FROM intents JOIN outcomes ON intent = number WHERE \"order\" = 'on' AND result = 'done'"
        wait_until(lambda: {row[0] for row in connection.execute(done)} == set(ALL), what="the records of all wakes")
