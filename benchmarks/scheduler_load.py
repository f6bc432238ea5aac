"""What the agent costs slurmctld: at rest, while nodes go down, behind a slow network, and with `rl_enable`.

`python -m benchmarks.scheduler_load` takes 40 minutes, with `down` behind it ten: then it measures only nodes that go
down. A proxy makes each request of the agent take 5 s, which counts as slurmctld's time. `rl_enable` needs Slurm 23.02
or later on the PATH, and root, as the agent runs as another user.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.__main__ import print_table
from benchmarks.bars import Measured
from benchmarks.local_slurm.agent import agent, write_site
from benchmarks.local_slurm.cluster import NEEDED, PoweredCluster, powered_cluster
from benchmarks.local_slurm.plan import REPOSITORY, PoweredPlan
from benchmarks.local_slurm.processes import reserved_ports, wait_until
from benchmarks.local_slurm.servers import SlurmCluster, munge, slurmctld, slurmd, wait_for_nodes
from offpeak.model.orders import NodeState

NODES, CYCLE_S, REST_S = 4, 30, 150.0
DELAY_S, PATIENCE_S = 5.0, 2000.0
SETTINGS = {
    "agent": {"cycle": f"{CYCLE_S}s", "capacity": "timeout:2min", "mode": "active"},
    "slurm": {"timeout": "60s"},
    "prices": {"tariff": "on=90EUR/MWh,off=30EUR/MWh,hours=09:00-23:00"},
}
CHANGES, OTHER = 500, 65534
BATCHES, IDLE_S, SETTLED_S = (1, 8, 32), 60, 20.0
OF_STEPS = ("REQUEST_JOB_INFO", "REQUEST_NODE_INFO", "REQUEST_PARTITION_INFO", "REQUEST_UPDATE_NODE")
"""The messages of the steps of nodes; a reading of the cluster has one REQUEST_STATS_INFO, and some of these."""
_MESSAGE = re.compile(r"^\s+(REQUEST_\w+) +\( *\d+\) count:(\d+) ", re.MULTILINE)
_USER = re.compile(r"^\s+\S+ +\( *0\) count:(\d+) ", re.MULTILINE)


@dataclass
class SlowProxy:
    """Holds each request for `delay_s` before slurmctld gets it; `held` are its begins and ends [s, monotonic]."""

    port: int
    to_port: int
    delay_s: float
    held: list[tuple[float, float]] = field(default_factory=list)

    def serve(self, listener: socket.socket) -> None:
        """Serve until the listener is closed."""
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._hold, args=(client,), daemon=True).start()

    def _hold(self, client: socket.socket) -> None:
        begun_s = time.monotonic()
        time.sleep(self.delay_s)
        with closing(client), socket.create_connection(("127.0.0.1", self.to_port)) as server:
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join(60)
        self.held.append((begun_s, time.monotonic()))


def _copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return


@contextmanager
def slow_proxy(cluster: SlurmCluster, delay_s: float) -> Iterator[tuple[SlowProxy, Path]]:
    """Run a proxy; give it and the slurm.conf of who goes through it."""
    with reserved_ports(1) as (port,), socket.create_server(("127.0.0.1", port)) as listener:
        proxy = SlowProxy(port, cluster.port, delay_s)
        threading.Thread(target=proxy.serve, args=(listener,), daemon=True).start()
        conf = cluster.folder / "slow" / "slurm.conf"
        conf.parent.mkdir()
        conf.write_text(cluster.conf.read_text().replace(f"SlurmctldPort={cluster.port}", f"SlurmctldPort={port}"))
        yield proxy, conf


def readings(held: list[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Return the requests by readings: those less than half a cycle apart belong together."""
    found: list[list[tuple[float, float]]] = []
    for each in sorted(held):
        if found and each[0] - max(end_s for _, end_s in found[-1]) < CYCLE_S / 2:
            found[-1].append(each)
        else:
            found.append([each])
    return found


def at_rest(cluster: PoweredCluster) -> Iterator[Measured]:
    """Measure the requests of an agent that has nothing to do."""
    settings = write_site(cluster, SETTINGS)
    with agent(cluster, settings):
        time.sleep(60)
        counts = []
        for _ in range(2):
            match = _USER.search(cluster.run("sdiag"))
            assert match is not None
            counts.append(int(match[1]))
            time.sleep(REST_S)
    a_minute = (counts[1] - counts[0]) * 60 / REST_S
    yield Measured(
        "requests of an agent at rest", a_minute, "a minute", 40.0, False, f"{NODES} nodes asleep, slurmctld"
    )


def going_down(nodes: int) -> Iterator[Measured]:
    """Measure the requests of nodes that go down in the same round, without those of the readings between."""
    changes = {**SETTINGS, "agent": {**SETTINGS["agent"], "capacity": f"timeout:{IDLE_S}s"}}
    with powered_cluster(PoweredPlan(nodes=nodes)) as cluster, agent(cluster, write_site(cluster, changes)):
        time.sleep(SETTLED_S)
        up = _messages(cluster)
        wait_until(
            lambda: all(node.state is NodeState.OFF for node in cluster.nodes.values()), what="sleep", seconds=600
        )
        time.sleep(2 * SETTLED_S)
        down = _messages(cluster)
        time.sleep(2 * CYCLE_S + SETTLED_S)
        rest = _messages(cluster)
        if any(cluster.state(name) != "IDLE+POWERED_DOWN" for name in cluster.nodes):
            raise RuntimeError(cluster.describe_state())
    (steps, readings), (rest_steps, rest_readings) = _count_messages(up, down), _count_messages(down, rest)
    a_node = (steps - readings * rest_steps / rest_readings) / nodes
    data = f"{nodes} in one round, from idle to asleep, {readings} readings between"
    yield Measured(f"requests of a node that goes down, of {nodes} together", a_node, "", 11.0, False, data)


def _count_messages(first: Counter[str], last: Counter[str]) -> tuple[int, int]:
    """Return how many of OF_STEPS came between two countings, and how many readings; a counting is a sdiag too."""
    readings = last["REQUEST_STATS_INFO"] - first["REQUEST_STATS_INFO"] - 1
    return sum(last[each] - first[each] for each in OF_STEPS), readings


def _messages(cluster: PoweredCluster) -> Counter[str]:
    shown = cluster.run("sdiag").partition("statistics by message type")[2].partition("statistics by user")[0]
    return Counter({name: int(count) for name, count in _MESSAGE.findall(shown)})


def through_proxy(cluster: PoweredCluster, delay_s: float = DELAY_S) -> Iterator[Measured]:
    """Measure the agent's share of the time from the second reading to the third."""
    with slow_proxy(cluster.slurm, delay_s) as (proxy, conf):
        settings = write_site(cluster, SETTINGS)
        with agent(cluster, settings) as running:
            running.stop()
            running.environment["SLURM_CONF"] = str(conf)
            proxy.held.clear()
            running.start()
            wait_until(lambda: len(readings(proxy.held)) > 2, what="three readings", seconds=PATIENCE_S, every_s=1.0)
        _, second, third = readings(proxy.held)[:3]
    apart_s = third[0][0] - second[0][0]
    share = sum(end_s - begin_s for begin_s, end_s in second) / apart_s
    # A command may begin the next request before its last one is closed.
    at_once = max(sum(b <= begin_s < e - delay_s / 10 for b, e in proxy.held) for begin_s, _ in proxy.held)
    data = f"{delay_s:g} s a request, {len(second)} requests a reading, one each {apart_s:.0f} s"
    yield Measured("the agent's share of the time of a slow slurmctld", 100 * share, "%", 5.0, False, data)
    yield Measured("its requests under way at once", at_once, "", 1.0, False, data)


LIMITED = """
import asyncio, sys, time
from pathlib import Path
from offpeak.ledger.ledger import Ledger
from offpeak.settings.agent import AgentSettings, SlurmSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import PriceSettings
from offpeak.settings.table import Settings
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.site_context import make_site_context

folder = Path(sys.argv[1])
settings = Settings(
    prices=PriceSettings(tariff=sys.argv[2]),
    ledger=LedgerSettings(url=f"sqlite:///{folder}/ledger.sqlite"),
    slurm=SlurmSettings(timeout_s=10),
    agent=AgentSettings(mode="active", state_folder=folder, socket=folder / "agent.sock", longest_delay_s=86400),
)

async def main():
    ledger = Ledger(settings.ledger)
    ledger.ready()
    agent = SiteAgent(make_site_context(settings), ledger, ProblemLog())
    await agent.prices.round()
    runner = agent._runner(agent.queue_loop)
    begun_s, first = time.monotonic(), ""
    for cycle in range(60):
        round_s = time.monotonic()
        await runner.once()
        took_s = time.monotonic() - round_s
        first = first or next((each for each in agent.problem_log.problems if "later cycles" in each), "")
        left = sum(not job.begin_s or job.begin_s < time.time() for job in agent.queue_loop.facts.pending)
        if cycle and not left:
            break
        await asyncio.sleep(max(0.05, runner.period_s - took_s))
    print(cycle, left, round(time.monotonic() - begun_s), first, sep="|")
    await agent.close()

asyncio.run(main())
"""


def limited() -> Iterator[Measured]:
    """Let an agent of an ordinary user move the begin times of its own 500 jobs on a slurmctld with `rl_enable`."""
    expensive = time.strftime("%H:00", time.gmtime()), time.strftime("%H:00", time.gmtime(time.time() + 4 * 3600))
    tariff = f"on=90EUR/MWh,off=30EUR/MWh,hours={'-'.join(expensive)},zone=UTC"
    with tempfile.TemporaryDirectory(prefix="offpeak-limited-") as name, ExitStack() as servers:
        folder = Path(name)
        folder.chmod(0o755)
        socket_ = servers.enter_context(munge(folder))
        port, node_port = servers.enter_context(reserved_ports(2))
        settings = "SlurmctldParameters=rl_enable\nMaxJobCount=5000\n"
        cluster = SlurmCluster(folder, socket_, port, (node_port,), settings, priority="priority/multifactor")
        cluster.write_conf()
        servers.enter_context(slurmctld(cluster))
        servers.enter_context(slurmd(cluster, 1))
        wait_for_nodes(cluster)
        own = folder / "own"
        own.mkdir()
        os.chown(own, OTHER, OTHER)
        cluster.run("sbatch", "--exclusive", "--output=/dev/null", "--wrap=sleep 3600")
        job = "sbatch --output=/dev/null --time=30 --comment=offpeak:delay=8h --uid=65534 --gid=65534 --wrap=true"
        cluster.run("sh", "-c", f"cd /; for i in $(seq {CHANGES}); do {job} >/dev/null || exit 1; done")
        as_other = ("setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups", sys.executable, "-c", LIMITED)
        environment = cluster.environment | {"PYTHONPATH": str(REPOSITORY), "HOME": str(own)}
        done = subprocess.run(
            (*as_other, str(own), tariff), env=environment, cwd=own, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        cycles, left, took_s, says = done.stdout.strip().split("|", 3)
        data = f"{CHANGES} begin times, 30 requests and 2 a second, {int(cycles) + 1} cycles; it says: {says}"
        yield Measured("changes not made with rl_enable", float(left), "", 0.0, False, data)
        yield Measured("the time that they took", float(took_s), "s", 900.0, False, data)


def scheduler_load_benchmarks() -> Iterator[Measured]:
    """Measure all; nothing where Slurm or ipmi_sim is missing."""
    version = subprocess.run(("sinfo", "--version"), capture_output=True, text=True, check=False).stdout.split()[-1:]
    if version and tuple(map(int, version[0].split(".")[:2])) >= (23, 2) and os.geteuid() == 0:
        yield from limited()
    if all(shutil.which(program) for program in NEEDED):
        for nodes in BATCHES:
            yield from going_down(nodes)
        with powered_cluster(PoweredPlan(nodes=NODES)) as cluster:
            yield from at_rest(cluster)
            yield from through_proxy(cluster)


if __name__ == "__main__":
    only_down = sys.argv[1:] == ["down"]
    print_table((each for nodes in BATCHES for each in going_down(nodes)) if only_down else scheduler_load_benchmarks())
