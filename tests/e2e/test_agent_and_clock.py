"""The clock of the head node is set: no job loses power, no node is stranded, and nothing is counted twice."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from needed_programs import need
from node_story import taken, wait_for_sleep
from powered_fixtures import StartPowered
from sqlalchemy import text
from stepped_clock import SteppedClock

from benchmarks.local_slurm.agent import RunningAgent, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.meters import metered_racks
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.local_slurm.processes import SEARCH_PATH
from offpeak.ledger.database import open_ledger
from offpeak.ledger.records import states_in
from offpeak.ledger.rows import NodeStateRecord
from offpeak.model.constants import DAY_S
from offpeak.model.orders import NodeState
from offpeak.model.time_range import TimeRange
from offpeak.services.accounts.savings import find_sleep_periods

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]
ALL = ("node1", "node2", "node3")
TARIFF = "on=90EUR/MWh,off=30EUR/MWh,hours=00:00-23:59,zone="
SHORT_S, LONG_S = 90.0, 3600.0
ZONE = """\
Rule Change {at:%Y} only - Jan 1 0:00u 1:00 S
Rule Change {at:%Y} only - {at:%b} {at.day} {at:%H:%M:%S}u 0 -
Zone Test/Change 1:00 Change CE%sT
"""
ENERGY = (
    "SELECT sum(energy_j), min(energy_j) FROM minutes JOIN series ON series = number WHERE way = :way AND node != ''"
)
POLL_S = 5.0
"""How much later than the node itself the agent knows its state, on a busy machine."""


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(PoweredPlan(nodes=len(ALL), boot_s=4.0, shutdown_s=2.0))


@pytest.fixture
def clock(cluster: PoweredCluster) -> SteppedClock:
    return SteppedClock(cluster.folder / "clock.offset")


@contextmanager
def counted(cluster: PoweredCluster, clock: SteppedClock, zone: str, **environment: str) -> Iterator[RunningAgent]:
    """Run an agent with that clock and an empty ledger; at the end its ledger has no more than the nodes did."""
    before = {name: (node.joules, node.asleep_s) for name, node in cluster.nodes.items()}
    for file in (*cluster.folder.glob("ledger.sqlite*"), *cluster.folder.glob("agent.log")):
        file.unlink()
    with metered_racks(cluster) as racks:
        settings = write_site(cluster, {"prices": {"tariff": TARIFF + zone}}, racks=racks)
        made = RunningAgent(cluster, ("agent", "--config", str(settings)), clock.start, environment=environment)
        made.start()
        try:
            yield made
        finally:
            made.stop()
        used_j = sum(node.joules - before[name][0] for name, node in cluster.nodes.items())
        asleep_s = sum(node.asleep_s - before[name][1] for name, node in cluster.nodes.items())
    now_s = clock.unix_s
    with open_ledger(f"sqlite:///{cluster.folder / 'ledger.sqlite'}") as ledger:
        energy_j, least_j = ledger.execute(text(ENERGY), {"way": "snmp"}).one()
        span = TimeRange(now_s - DAY_S, now_s)
        rests = find_sleep_periods([NodeStateRecord(**record) for record in states_in(ledger, span)], span)
        orders = ledger.execute(text("SELECT count(*), count(DISTINCT number) FROM intents")).one()
    # A reading counts until the next one, although a node may draw less by then: later on a busy machine.
    assert 0.5 * used_j < energy_j <= 1.05 * used_j
    assert least_j >= 0.0
    assert sum(rest.seconds.get(NodeState.OFF, 0.0) for rest in rests) <= asleep_s + POLL_S * len(rests)
    assert orders[0] == orders[1] > 0


def lines(running: RunningAgent, text: str) -> int:
    return running.log.read_text().count(text)


def steps_through_a_wake_and_a_sleep(
    cluster: PoweredCluster, running: RunningAgent, clock: SteppedClock, steps_s: tuple[float, float, float]
) -> None:
    """Set the clock while all nodes sleep, while one boots, and while it falls asleep."""
    wait_for_sleep(cluster, *ALL)
    before = lines(running, "WARNING clock: set ")
    at_rest_s = time.time()
    clock.step(steps_s[0])
    cluster.wait(lambda: lines(running, "WARNING clock: set ") == before + 1, what="the line of the first step")
    assert taken(cluster, *ALL, since_s=at_rest_s) == []
    (wakes,) = cluster.jobs.submit(on="node1", seconds=1)
    cluster.wait(lambda: cluster.nodes["node1"].state is NodeState.BOOTING, what="a boot")
    clock.step(steps_s[1])
    cluster.wait(lambda: cluster.jobs.states()[wakes] == "COMPLETED", what="the job on a node that booted")
    cluster.wait(lambda: cluster.nodes["node1"].state is NodeState.GOING_DOWN, what="a node that falls asleep")
    clock.step(steps_s[2])
    asleep_s = time.time()
    cluster.jobs.submit(on="node1", seconds=1)
    ups = lambda: [event for event in cluster.log.events(node="node1", since_s=asleep_s) if event.what == "up"]  # noqa: E731
    cluster.wait(lambda: bool(ups()), what="a job to wake the node that fell asleep")
    cluster.wait(lambda: lines(running, "WARNING clock: set ") == before + 3, what="a line for each step")
    assert running.runs


@pytest.mark.parametrize(
    ("step_s", "said"),
    [
        (LONG_S, "forward by 1 h"),
        (-LONG_S, "back by 1 h"),
        pytest.param(SHORT_S, "forward by 90 s", marks=pytest.mark.nightly),
        pytest.param(-SHORT_S, "back by 90 s", marks=pytest.mark.nightly),
    ],
)
def test_a_clock_that_is_set_strands_no_node_and_counts_nothing_twice(
    cluster: PoweredCluster, clock: SteppedClock, step_s: float, said: str
) -> None:
    with counted(cluster, clock, "UTC") as running:
        steps_through_a_wake_and_a_sleep(cluster, running, clock, (step_s, step_s, step_s))
        assert f"WARNING clock: set {said}" in running.log.read_text()


def test_a_clock_that_is_set_across_the_end_of_summer_time(
    cluster: PoweredCluster, clock: SteppedClock, tmp_path: Path
) -> None:
    need(["zic"], packages="libc-bin")
    change = datetime.now(UTC) + timedelta(seconds=20)
    (tmp_path / "change").write_text(ZONE.format(at=change))
    command = ("zic", "-d", str(tmp_path / "zones"), str(tmp_path / "change"))
    subprocess.run(command, env={"PATH": SEARCH_PATH}, check=True)
    zones = f"{tmp_path / 'zones'}:/usr/share/zoneinfo"
    with counted(cluster, clock, "Test/Change", PYTHONTZPATH=zones) as running:
        cluster.wait(lambda: clock.unix_s > change.timestamp(), what="the end of summer time")
        steps_through_a_wake_and_a_sleep(cluster, running, clock, (-SHORT_S, SHORT_S, -SHORT_S))
