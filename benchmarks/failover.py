"""Fail-over of two head nodes: the active agent is killed, frozen or cut off from the database, on a real slurmctld.

An agent is frozen while it sends an order to a BMC, which arrives, is lost, comes twice or late; it continues once the
other one has taken the lease. `python -m benchmarks.failover` prints how long it took until the other agent took the
lease, and how many orders came out of an agent that another one had replaced, as the wires to the BMCs show. It needs
root, for two host names on one machine, and the packages slurmctld, slurmd, munge, postgresql and openipmi.
"""

import argparse
import random
import signal
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise

from benchmarks.__main__ import print_table
from benchmarks.bars import Measured
from benchmarks.local_slurm.cluster import PoweredCluster, powered_cluster
from benchmarks.local_slurm.pair import FROZEN, LEASE_IS_LOST, HeadNode, HeadNodePair, head_node_pair
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.local_slurm.postgres import new_postgres
from benchmarks.local_slurm.processes import wait_until
from offpeak.model.clock import boot_s

FAULTS = ("kill", "freeze", "cut off")
COPIES_S = {"arrives": (0.0,), "is lost": (), "comes twice": (0.0, 0.0), "comes late": (1.0,)}
"""What becomes of the orders of an agent that is frozen while it sends one: when each copy of one arrives."""
CHANGES = {"agent": {"capacity": "timeout:2s"}}


def fail_over(cluster: PoweredCluster, pair: HeadNodePair, fault: str, chance: random.Random) -> float:
    """Let the active agent fail; return the time [s] until the other one took the lease, with the pair whole again."""
    active = pair.active
    standby = pair.other(active)
    wait_until(lambda: standby.stands_by, what="the standby agent", every_s=0.2)
    cluster.jobs.submit(nodes=2, seconds=2)
    if fault == "freeze":
        freeze_at_an_order(active, COPIES_S[chance.choice(list(COPIES_S))])
    else:
        time.sleep(chance.uniform(0.0, 3.0))
    begun_s = boot_s()
    if fault == "cut off":
        active.link.cut()
    elif fault == "kill":
        active.send(signal.SIGKILL)

    def taken_s() -> float | None:
        takes = (entry.at_s for entry in standby.entries() if entry.what == "take" and entry.at_s > begun_s)
        return next(takes, None)

    wait_until(lambda: taken_s() is not None, what="the other agent to take the lease", log=standby.log)
    mend(active, fault)
    active.start()
    return (taken_s() or 0.0) - begun_s


def freeze_at_an_order(node: HeadNode, copies_s: tuple[float, ...]) -> None:
    """Freeze the agent as soon as an order of it is on the way to a BMC; that one and later ones become `copies_s`."""
    frozen = threading.Event()

    def freeze() -> None:
        if not frozen.is_set():
            node.send(signal.SIGSTOP)
            frozen.set()

    for wire in node.wires:
        wire.copies_s, wire.before_order = copies_s, freeze
    wait_until(frozen.is_set, what="an order of the active agent", log=node.log)


def mend(node: HeadNode, fault: str) -> None:
    """End a fault, and see the agent end by itself if it lives; RuntimeError if it ends in another way."""
    if fault == "cut off":
        node.link.mend()
    elif fault == "freeze":
        node.send(signal.SIGCONT)
    status = node.wait()
    for wire in node.wires:
        wire.copies_s, wire.before_order = (0.0,), bool
    if fault != "kill" and status not in (LEASE_IS_LOST, FROZEN):
        raise RuntimeError(f"{node.name}: the agent ended with {status} after {fault}: see {node.log}")


def figures(count: int, lease: str, seed: int, faults: Sequence[str]) -> Iterator[Measured]:
    """Yield all figures."""
    chance = random.Random(seed)
    took_s: dict[str, list[float]] = {fault: [] for fault in faults}
    with (
        new_postgres() as server,
        server.up(),
        powered_cluster(PoweredPlan(nodes=4)) as cluster,
        head_node_pair(cluster, server.create("pair").rpartition("/")[2], [server.port], CHANGES, lease=lease) as pair,
    ):
        for node in pair.nodes:
            node.start()
        for number in range(count):
            fault = faults[number % len(faults)]
            took_s[fault].append(fail_over(cluster, pair, fault, chance))
            print(f"{number + 1} {fault}: {took_s[fault][-1]:.1f} s", file=sys.stderr, flush=True)
        jobs = cluster.jobs
        cluster.wait(lambda: set(jobs.states().values()) <= {"COMPLETED"}, what="all jobs to end")
        lost, violations, tokens = jobs.lost(), cluster.log.violations, pair.tokens()
        orders = [entry for entry in pair.trace() if entry.what == "order"]
        double = pair.orders_without_lease()
        arrived = sum(len(node.bmc.lines("orders")) for node in cluster.nodes.values())
    for entry in (*double, *violations, *(f"lost: job {job}" for job in lost)):
        print(entry, file=sys.stderr)
    came = f"{len(orders)} orders on the wires, {arrived} at the BMCs"
    data = f"lease {lease}, seed {seed}, {came}, {len(tokens)} holders"
    for fault, each_s in took_s.items():
        if each_s:
            text = f"median {statistics.median(each_s):.1f} s of {len(each_s)}; {data}"
            yield Measured(f"{fault}: until the other agent takes the lease", max(each_s), "s", 30.0, False, text)
    yield Measured("orders of an agent after another has taken the lease", len(double), "", 0.0, False, data)
    grow = sum(later <= earlier for earlier, later in pairwise(tokens))
    yield Measured("tokens that did not grow", grow, "", 0.0, False, data)
    told = "; ".join(f"{each.node} {each.what} with {', '.join(each.jobs)}" for each in violations)
    yield Measured("power that was taken, or ordered to be, while a job ran", len(violations), "", 0.0, False, told)
    yield Measured("lost jobs", len(lost), "", 0.0, False, ", ".join(map(str, lost)))


def main() -> int:
    """Return 0 if every bar was reached."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.failover", description=__doc__)
    arguments.add_argument("--count", type=int, default=100, help="how often the active agent fails")
    arguments.add_argument("--lease", default="5s", help="length of the lease")
    arguments.add_argument("--seed", type=int, default=1, help="of the moments")
    arguments.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS, help="in turn")
    given = arguments.parse_args()
    measured = list(figures(given.count, given.lease, given.seed, given.faults))
    print_table(measured)
    return 0 if all(each.reached for each in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
