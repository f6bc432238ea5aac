"""A cap of 30 % below the present draw of a Slurm cluster: starts are held, idle nodes sleep, and all comes back."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from node_story import FLAT, wait_for_line
from openadr_vtn import openadr_vtn
from powered_fixtures import StartPowered
from zygote import Zygote

from benchmarks.local_slurm.agent import RunningAgent, agent, run_offpeak, write_site
from benchmarks.local_slurm.cluster import PATIENCE_S, PoweredCluster
from benchmarks.local_slurm.meters import MeteredRacks, metered_racks
from benchmarks.local_slurm.node import BUSY_W, IDLE_W
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import MeterReading
from offpeak.model.orders import NodeState
from offpeak.settings.ledger import LedgerSettings

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]

LOG = logging.getLogger(__name__)
NODES, USED = 8, 3
DRAW_W = USED * BUSY_W + (NODES - USED) * IDLE_W
CAP_W = 0.7 * DRAW_W
LASTS_S = 120.0
BELOW_WITHIN_S = 60.0


@pytest.fixture
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(
        PoweredPlan(nodes=NODES, boot_s=8.0, shutdown_s=8.0, suspend_timeout_s=10, resume_timeout_s=60)
    )


@pytest.fixture
def racks(cluster: PoweredCluster) -> Iterator[MeteredRacks]:
    with metered_racks(cluster) as made:
        yield made


class DrawLog:
    """The power at the outlets of all nodes, twenty times a second."""

    def __init__(self, racks: MeteredRacks) -> None:
        self._racks, self.samples = racks, list[tuple[float, float]]()

    def read_w(self) -> float:
        """Return the present power."""
        outlets = (load for pdu in self._racks.pdus.values() for load in pdu.outlets.values())
        return sum(load.power_w for load in outlets if load is not None)

    @contextmanager
    def running(self) -> Iterator[None]:
        ended = threading.Event()

        def sample() -> None:
            while not ended.wait(0.05):
                self.samples.append((time.time(), self.read_w()))

        thread = threading.Thread(target=sample)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def most_w(self, from_s: float, until_s: float) -> float:
        """Return the largest power between these times."""
        return max(power_w for at_s, power_w in self.samples if from_s <= at_s < until_s)

    def mean_w(self, start: str, lasts_s: float) -> float:
        """Return the mean power from a time in UTC on."""
        from_s = datetime.fromisoformat(start).timestamp()
        inside = [power_w for at_s, power_w in self.samples if from_s <= at_s < from_s + lasts_s]
        return sum(inside) / len(inside)

    def below_s(self, from_s: float, cap_w: float) -> float | None:
        """Return how long it took from then until the power was at most the cap, None while it is above."""
        return next((at_s - from_s for at_s, power_w in self.samples if at_s >= from_s and power_w <= cap_w), None)


def settings(cluster: PoweredCluster, racks: MeteredRacks, **plan: str) -> Path:
    """Write a site whose nodes would idle for an hour, with the usual cycle."""
    changes = {"agent": {"capacity": "timeout:1h", "cycle": "30s", "hands_off": "10min"}, "plan": plan, **FLAT}
    return write_site(cluster, changes, racks=racks)


def order(events: Path, *, from_s: float, until_s: float, cap_w: float) -> None:
    """Write the file of events in one step."""
    begin, end = (datetime.fromtimestamp(int(at_s), UTC).isoformat() for at_s in (from_s, until_s))
    new = events.with_suffix(".new")
    new.write_text(f'[[event]]\nbegin = {begin}\nend = {end}\ncap_w = {cap_w:.0f}\nreason = "the grid asks"\n')
    new.replace(events)


@pytest.fixture
def queue(cluster: PoweredCluster) -> tuple[str, str]:
    """A job that has three nodes, and one that waits for six of eight, so that five are idle."""
    (first,) = cluster.jobs.submit(nodes=USED, seconds=600)
    cluster.wait(lambda: cluster.jobs.states()[first] == "RUNNING", what="the first job to run")
    (wide,) = cluster.jobs.submit(nodes=NODES - 2, seconds=5)
    return first, wide


def withdrawn(cluster: PoweredCluster) -> set[str]:
    """Return the nodes that are off, and that no job wakes."""
    off = [name for name, node in cluster.nodes.items() if node.state is NodeState.OFF]
    return {name for name in off if cluster.admin.is_withdrawn(name)}


def wait_until_settled(cluster: PoweredCluster, draw: DrawLog, running: RunningAgent) -> None:
    wait_for_line(running, "started")
    for name, node in cluster.nodes.items():
        if node.state is NodeState.OFF:
            cluster.admin.power_up(name)
    cluster.wait(lambda: draw.read_w() == DRAW_W, what="the draw before the cap")
    cluster.wait(lambda: measured_w(cluster) == DRAW_W, what="the agent to measure it")


def measured_w(cluster: PoweredCluster) -> float | None:
    """Return what the agent measures, None before its first round has ended."""
    answer = run_offpeak(cluster, "status", "--json")
    return json.loads(answer.stdout)["nodes"]["watts"] if answer.returncode == 0 else None


def obeyed(
    cluster: PoweredCluster, draw: DrawLog, queue: tuple[str, str], begin: Callable[[float, float], None]
) -> tuple[float, float]:
    """Order a cap, see to all that it must do, and return how long the draw and the jobs took."""
    first, wide = queue
    with draw.running():
        ordered_s = time.time()
        until_s = float(int(ordered_s + LASTS_S))
        begin(ordered_s, until_s)
        is_below = lambda: draw.below_s(ordered_s, CAP_W) is not None  # noqa: E731
        cluster.wait(is_below, what="the draw to be below the cap", seconds=BELOW_WITHIN_S)
        below_s = draw.below_s(ordered_s, CAP_W)
        assert below_s is not None
        # New jobs do not start: one would fit on the nodes, but not below the cap.
        (late,) = cluster.jobs.submit(nodes=2, seconds=5)
        # The begin time of a job that is not held is that of its submission.
        cluster.wait(lambda: cluster.jobs.begin_s(wide) > time.time(), what="the wide job to be held")
        cluster.wait(lambda: cluster.jobs.begin_s(late) > time.time(), what="the new job to be held")
        assert cluster.jobs.begin_s(wide) == pytest.approx(until_s, abs=2)
        cluster.jobs.cancel([first])
        # Two nodes may run a job now.
        cluster.wait(lambda: cluster.jobs.states()[late] == "COMPLETED", what="the job that fits to run")
        assert time.time() < until_s
        assert cluster.jobs.states()[wide] == "PENDING"
        cluster.wait(lambda: cluster.jobs.states()[wide] == "COMPLETED", what="the wide job to run", seconds=300)
    started_s = next(entry.at_s for entry in cluster.jobs.trace() if entry.job == wide and entry.what == "start")
    assert draw.most_w(ordered_s + below_s + 0.1, until_s) <= CAP_W
    assert started_s >= until_s
    return below_s, started_s - until_s


@pytest.mark.nightly
def test_a_cap_by_file(cluster: PoweredCluster, racks: MeteredRacks, queue: tuple[str, str], zygote: Zygote) -> None:
    events = cluster.folder / "events.toml"
    events.write_text("")
    draw = DrawLog(racks)
    with agent(cluster, settings(cluster, racks, events=str(events)), by=zygote.start) as running:
        wait_until_settled(cluster, draw, running)
        below_s, back_s = obeyed(
            cluster, draw, queue, lambda from_s, until_s: order(events, from_s=from_s, until_s=until_s, cap_w=CAP_W)
        )
    LOG.info("below the cap after %.1f s; the held job runs %.1f s after its end", below_s, back_s)
    assert below_s < BELOW_WITHIN_S


def test_a_cap_by_openadr(cluster: PoweredCluster, racks: MeteredRacks, queue: tuple[str, str], zygote: Zygote) -> None:
    draw = DrawLog(racks)
    with (
        openadr_vtn() as vtn,
        agent(cluster, settings(cluster, racks, openadr=vtn.url, openadr_client="hpc-1"), by=zygote.start) as running,
    ):
        wait_until_settled(cluster, draw, running)
        below_s, back_s = obeyed(
            cluster,
            draw,
            queue,
            lambda from_s, until_s: vtn.order("e1", from_s=from_s, until_s=until_s, cap_w=CAP_W),
        )
        cluster.wait(lambda: bool(vtn.reports), what="the report")
        assert running.runs
    (report,) = vtn.reports
    assert (report["eventID"], report["clientName"]) == ("e1", "hpc-1")
    (interval,) = report["resources"][0]["intervals"]
    reported_kw = next(each["values"][0] for each in interval["payloads"] if each["type"] == "DEMAND")
    assert reported_kw == pytest.approx(draw.mean_w(interval["intervalPeriod"]["start"], LASTS_S) / 1000, rel=0.1)
    LOG.info("below the cap after %.1f s; the held job runs %.1f s after its end", below_s, back_s)
    assert below_s < BELOW_WITHIN_S


def test_an_agent_that_ends_in_the_middle_gives_all_back(
    cluster: PoweredCluster, racks: MeteredRacks, queue: tuple[str, str], zygote: Zygote
) -> None:
    _, wide = queue
    events = cluster.folder / "events.toml"
    now_s = time.time()
    order(events, from_s=now_s, until_s=now_s + 3600, cap_w=CAP_W)
    draw = DrawLog(racks)
    with agent(cluster, settings(cluster, racks, events=str(events)), by=zygote.start) as running:
        cluster.wait(lambda: draw.read_w() <= CAP_W, what="the draw to be below the cap", seconds=PATIENCE_S)
        cluster.wait(lambda: cluster.jobs.begin_s(wide) > now_s, what="the wide job to be held")
        # A node that is still on its way down stays closed, and `offpeak agent --restore` opens it.
        cluster.wait(lambda: len(withdrawn(cluster)) == 4, what="the nodes to count as off, and as closed")
        running.reread()
        wait_for_line(running, "settings are read again")
        time.sleep(5)
        assert cluster.jobs.begin_s(wide) > now_s
        assert draw.read_w() <= CAP_W
        assert running.process is not None
        running.process.terminate()
        running.process.wait(PATIENCE_S)
    assert cluster.jobs.begin_s(wide) <= time.time()
    assert not any(cluster.admin.is_shut(node) for node in cluster.nodes)


def test_the_grid_calls_and_jobs_that_allow_it_are_capped(
    cluster: PoweredCluster, racks: MeteredRacks, zygote: Zygote
) -> None:
    """Two nodes are idle, four have a job that may be capped, two a rigid one; a quarter of the draw is to go."""
    (flexible,) = cluster.jobs.submit("--comment=offpeak:cap", nodes=4, seconds=600)
    (rigid,) = cluster.jobs.submit(nodes=2, seconds=600)
    cluster.wait(lambda: set(cluster.jobs.states().values()) == {"RUNNING"}, what="both jobs to run")
    draw, before_w = DrawLog(racks), 6 * BUSY_W + 2 * IDLE_W
    with agent(cluster, settings(cluster, racks), by=zygote.start) as running, draw.running():
        wait_for_line(running, "started")
        cluster.wait(lambda: measured_w(cluster) == before_w, what="the agent to measure the draw")
        ordered_s = time.time()
        answer = run_offpeak(cluster, "shed", "25%", "--for", "110s")
        assert (answer.returncode, answer.stderr) == (0, "")
        assert f"(25 % less: nodes draw {before_w:,.0f} W now)" in answer.stdout
        is_below = lambda: draw.below_s(ordered_s, 0.75 * before_w) is not None  # noqa: E731
        cluster.wait(is_below, what="the draw to be a quarter lower", seconds=BELOW_WITHIN_S)
        below_s = draw.below_s(ordered_s, 0.75 * before_w)
        assert below_s is not None
        asleep = [name for name, node in cluster.nodes.items() if node.state is NodeState.OFF]
        capped = [node for node in cluster.nodes.values() if "".join(node.bmc.lines("limit"))]
        assert (len(asleep), len(capped)) == (2, 4)
        until_s = float(int(ordered_s)) + 110
        cluster.wait(lambda: time.time() > until_s, what="the end of the event", seconds=150)
        limits = lambda: ["".join(node.bmc.lines("limit")) for node in cluster.nodes.values()]  # noqa: E731
        cluster.wait(lambda: not any(limits()), what="the caps to end")
        back_s = time.time() - until_s
        assert draw.most_w(ordered_s + below_s + 0.1, until_s) <= 0.75 * before_w
        assert {cluster.jobs.states()[job] for job in (flexible, rigid)} == {"RUNNING"}
        (delivery,) = json.loads(run_offpeak(cluster, "shed", "--json").stdout)
    assert (delivery["cap_w"], delivery["before_w"]) == (0.75 * before_w, before_w)
    assert delivery["below_after_s"] <= BELOW_WITHIN_S
    assert delivery["held"] == 1
    assert [rung.partition(" on ")[0] for rung in delivery["rungs"]] == ["caps"]
    LOG.info("a quarter lower after %.1f s, held; without caps %.1f s after the end", below_s, back_s)


DEMAND = """\
currency = "EUR"
zone = "UTC"
[[energy]]
price = "90EUR/MWh"
[[demand]]
price = "120EUR/kW"
per = "year"
"""


def test_a_job_waits_for_a_lower_peak_and_no_longer_than_the_site_permits(
    cluster: PoweredCluster, racks: MeteredRacks, zygote: Zygote
) -> None:
    """A quarter-hour of 1,050 W is paid already: a job that fits below it starts, another one waits for a minute."""
    waits_s, before_w, paid_w = 60.0, 2 * BUSY_W + (NODES - 2) * IDLE_W, 1050.0
    ledger, quarter_s = Ledger(LedgerSettings(url=f"sqlite:///{cluster.folder / 'ledger.sqlite'}")), 900.0
    from_s = time.time() // quarter_s * quarter_s - 2 * quarter_s
    ledger.write_readings(
        [
            MeterReading(f"pdu of {node}", "snmp", "total", from_s, from_s + quarter_s, paid_w / NODES, node=node)
            for node in cluster.nodes
        ]
    )
    assert (ledger.settle(), ledger.close()) == (True, 0)
    tariff = cluster.folder / "tariff.toml"
    tariff.write_text(DEMAND)
    agent_settings = {"capacity": "timeout:1h", "cycle": "5s", "hands_off": "10min"}
    # The target is lower: what is paid already counts.
    plan = {"peak_target": "500W", "peak_wait": f"{waits_s:.0f}s"}
    changes = {"agent": agent_settings, "plan": plan, "prices": {"tariff": str(tariff)}}
    (first,) = cluster.jobs.submit(nodes=2, seconds=600)
    cluster.wait(lambda: cluster.jobs.states()[first] == "RUNNING", what="the first job to run")
    with agent(cluster, write_site(cluster, changes, racks=racks), by=zygote.start) as running:
        wait_for_line(running, "started")
        cluster.wait(lambda: measured_w(cluster) == before_w, what="the agent to measure the draw")
        is_capped = lambda: f"cap of {paid_w:,.0f} W" in run_offpeak(cluster, "status").stdout  # noqa: E731
        cluster.wait(is_capped, what="the soft cap")
        free = [node for node in cluster.nodes if "IDLE" in cluster.state(node)]
        cluster.wait(lambda: all(map(cluster.admin.is_shut, free)), what="the free nodes to be closed")
        submitted_s = time.time()
        (late,) = cluster.jobs.submit(seconds=5)
        cluster.wait(lambda: cluster.jobs.begin_s(late) > time.time(), what="the job above the peak to be held")
        cluster.wait(lambda: cluster.jobs.states()[late] == "COMPLETED", what="it to run in the end", seconds=180)
        late_s = next(entry.at_s for entry in cluster.jobs.trace() if entry.job == late) - submitted_s
        assert cluster.jobs.states()[first] == "RUNNING"
        cluster.jobs.cancel([first])
        # Idle nodes sleep while the late job runs.
        cluster.wait(lambda: (measured_w(cluster) or before_w) <= NODES * IDLE_W, what="the nodes to be idle")
        submitted_s = time.time()
        (fits,) = cluster.jobs.submit(seconds=5)
        cluster.wait(lambda: cluster.jobs.states()[fits] == "COMPLETED", what="the job that fits to run")
        fits_s = next(entry.at_s for entry in cluster.jobs.trace() if entry.job == fits) - submitted_s
    LOG.info("the job above the peak started after %.0f s, the one below it after %.0f s", late_s, fits_s)
    assert waits_s - 1 <= late_s < waits_s + 60
    assert fits_s < waits_s / 2
