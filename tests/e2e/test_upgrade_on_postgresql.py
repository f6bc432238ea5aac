"""offpeak is upgraded in the middle of a wake, with its ledger in PostgreSQL."""

import time

import pytest
from alembic import command
from alembic.config import Config
from node_story import FLAT, orders, wait_for_sleep
from postgres_server import new_postgres
from powered_fixtures import StartPowered
from sqlalchemy import text
from zygote import Zygote

from benchmarks.local_slurm.agent import agent, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.ledger.database import HEAD, MIGRATIONS, reading_engine, writing_engine

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]
ALL = ("node1", "node2", "node3")
VERSION = "SELECT version_num FROM alembic_version"
ORDERS = "SELECT count(*) FROM intents"
OPEN_ORDERS = f"{ORDERS} WHERE number NOT IN (SELECT intent FROM outcomes)"
KILLED = """
INSERT INTO intents (subject, "order", by, reason, inputs, at_unix_s)
VALUES ('node3', 'soft_off', 'offpeak', 'idle', '{}', :now_s)
"""


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(PoweredPlan(nodes=len(ALL), boot_s=4.0))


def read(url: str, statement: str) -> object:
    engine = reading_engine(url)
    try:
        with engine.connect() as ledger:
            return ledger.execute(text(statement)).scalar_one()
    finally:
        engine.dispose()


def one_version_back(url: str) -> None:
    """Give the ledger the tables of the version before HEAD, and an order of it that was cut off."""
    engine, config = writing_engine(url), Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "-1")
        connection.execute(text(KILLED), {"now_s": time.time()})
    engine.dispose()


def test_an_upgrade_on_postgresql_in_the_middle_of_a_wake(cluster: PoweredCluster, zygote: Zygote) -> None:
    with new_postgres() as server, server.up():
        url = server.create("upgrade")
        settings = write_site(cluster, {**FLAT, "ledger": {"url": url}})
        with agent(cluster, settings, by=zygote.start) as running:
            (busy,) = cluster.jobs.submit(on="node1", seconds=30)
            wait_for_sleep(cluster, "node2", "node3")
            before_s = time.time()
            (wakes,) = cluster.jobs.submit(on="node2", seconds=1)
            cluster.wait(lambda: "on" in orders(cluster, "node2", before_s), what="a wake under way")
            running.stop()
            one_version_back(url)
            rows = read(url, ORDERS)
            assert read(url, VERSION) != HEAD
            running.start()
            cluster.wait(lambda: read(url, VERSION) == HEAD, what="a migration")
            for job in (busy, wakes):
                cluster.wait(lambda job=job: cluster.jobs.states()[job] == "COMPLETED", what="jobs of before")
            cluster.wait(lambda: read(url, OPEN_ORDERS) == 0, what="the open order to be closed")
            assert int(str(read(url, ORDERS))) >= int(str(rows))
            (all_run,) = cluster.jobs.submit(nodes=len(ALL), seconds=1)
            cluster.wait(lambda: cluster.jobs.states()[all_run] == "COMPLETED", what="a job on all nodes")
