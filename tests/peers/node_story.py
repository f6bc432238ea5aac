"""What is asked over and over of nodes of a powered cluster: whether they sleep, are up, and what was ordered."""

import time
from datetime import UTC, datetime

from powered_stage import PoweredStage

from benchmarks.local_slurm.agent import RunningAgent, run_offpeak
from benchmarks.local_slurm.cluster import PATIENCE_S
from benchmarks.local_slurm.node import TAKES_POWER
from benchmarks.local_slurm.processes import wait_until
from offpeak.model.orders import NodeState
from offpeak.plugin.scheduler.node import SchedulerState

FLAT = {"prices": {"tariff": "on=90EUR/MWh,off=30EUR/MWh,hours=00:00-23:59,zone=UTC"}}
"""One price, so that nothing is put off for another."""
ORDERS = frozenset({"soft_off", "hard_off", "on"})


def dear_until(edge_unix_s: float) -> str:
    """Return a tariff that is dear until the edge, a whole minute, and cheap for the rest of the day."""
    edge = datetime.fromtimestamp(edge_unix_s, UTC)
    return f"on=90EUR/MWh,off=30EUR/MWh,hours={(edge.hour - 1) % 24:02}:59-{edge:%H:%M},zone=UTC"


def sleeping(cluster: PoweredStage) -> set[str]:
    """Return the nodes that are off, and are woken when a job needs them."""
    off = [name for name, node in cluster.nodes.items() if node.state is NodeState.OFF]
    return {name for name in off if cluster.admin.sleeps(name)}


def wait_for_sleep(cluster: PoweredStage, *nodes: str) -> None:
    """Return once all of them sleep; Slurm takes up to 10 s longer than its SuspendTimeout to count one as down."""
    cluster.wait(lambda: sleeping(cluster) >= set(nodes), what=f"{', '.join(nodes)} to sleep")


def is_up(cluster: PoweredStage, node: str) -> bool:
    """Whether it has power and counts as idle and up."""
    return cluster.nodes[node].state is NodeState.ON and cluster.admin.scheduler_state(node) is SchedulerState.UP


def orders(cluster: PoweredStage, node: str, since_s: float = 0.0) -> list[str]:
    """Return what its BMC was told."""
    return [event.what for event in cluster.log.events(node=node, since_s=since_s) if event.what in ORDERS]


def taken(cluster: PoweredStage, *nodes: str, since_s: float = 0.0) -> list[str]:
    """Return those of the nodes whose power was taken, or ordered to be taken."""
    return [
        event.node for event in cluster.log.events(since_s=since_s) if event.node in nodes and event.what in TAKES_POWER
    ]


def came_up_s(cluster: PoweredStage, node: str, since_s: float, until_s: float) -> float:
    """Return when it came up last between these two; IndexError if it did not."""
    ups = [event.at_s for event in cluster.log.events(node=node, since_s=since_s) if event.what == "up"]
    return [at_s for at_s in ups if at_s < until_s][-1]


def by_hand(cluster: PoweredStage, node: str, order: str) -> None:
    """Let somebody at its BMC tell it "on", "soft_off" or "hard_off"."""
    with (cluster.nodes[node].bmc.folder / "orders").open("a") as file:
        file.write(f"{order}\n")


def offpeak(cluster: PoweredStage, *arguments: str) -> str:
    """Return what `offpeak` says to an admin; AssertionError if it fails."""
    answer = run_offpeak(cluster, *arguments)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def wait_for_line(running: RunningAgent, text: str) -> None:
    """Return once the agent has written that into its log."""
    log = running.log
    wait_until(lambda: log.exists() and text in log.read_text(), what=f"the line {text!r}", log=log, seconds=PATIENCE_S)


def for_a_while(seconds: float = 5.0) -> float:
    """Return after some cycles of the agent, with the time at which they began."""
    begin_s = time.time()
    time.sleep(seconds)
    return begin_s


def local(unix_s: float) -> str:
    """Return a time as Slurm takes and shows it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(unix_s))
