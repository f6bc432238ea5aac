"""Fail-over of two head nodes: the active agent is killed, frozen or cut off from the database, on a real slurmctld.

`python -m benchmarks.failover` prints how long it took until the other agent gave its first order, and how many orders
an agent sent although the other one had the lease. It needs root, for two host names on one machine, and the packages
slurmctld, slurmd, munge, postgresql and openipmi.
"""

import argparse
import random
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import pairwise

from benchmarks.__main__ import print_table
from benchmarks.bars import Measured
from benchmarks.local_slurm.cluster import PoweredCluster, powered_cluster
from benchmarks.local_slurm.pair import LEASE_IS_LOST, HeadNode, HeadNodePair, head_node_pair
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.local_slurm.postgres import new_postgres
from benchmarks.local_slurm.processes import wait_until
from offpeak.ledger.lease import boot_s

FAULTS = ("kill", "freeze", "cut off")
CHANGES = {"agent": {"capacity": "timeout:2s"}}


def fail_over(cluster: PoweredCluster, pair: HeadNodePair, fault: str, chance: random.Random) -> float:
    """Let the active agent fail, and return the time [s] until the other one gave an order; the pair is whole again."""
    active = pair.active
    standby = pair.other(active)
    wait_until(lambda: standby.stands_by, what="the standby agent", every_s=0.2)
    cluster.jobs.submit(nodes=2, seconds=2)
    time.sleep(chance.uniform(0.0, 3.0))
    begun_s = boot_s()
    if fault == "cut off":
        active.link.cut()
    else:
        active.send(signal.SIGKILL if fault == "kill" else signal.SIGSTOP)

    def first_order_s() -> float | None:
        orders = (entry.at_s for entry in standby.entries() if entry.what == "order" and entry.at_s > begun_s)
        return next(orders, None)

    wait_until(lambda: first_order_s() is not None, what="an order of the other agent", every_s=0.1, log=standby.log)
    mend(active, fault)
    active.start()
    return (first_order_s() or 0.0) - begun_s


def mend(node: HeadNode, fault: str) -> None:
    """End a fault, and see the agent end by itself if it lives; RuntimeError if it ends in another way."""
    if fault == "cut off":
        node.link.mend()
    elif fault == "freeze":
        node.send(signal.SIGCONT)
    status = node.wait()
    if fault != "kill" and status != LEASE_IS_LOST:
        raise RuntimeError(f"{node.name}: the agent ended with {status} after {fault}: see {node.log}")


def figures(count: int, lease: str, seed: int) -> Iterator[Measured]:
    """Yield all figures."""
    chance = random.Random(seed)
    took_s: dict[str, list[float]] = {fault: [] for fault in FAULTS}
    with (
        new_postgres() as server,
        server.up(),
        powered_cluster(PoweredPlan(nodes=4)) as cluster,
        head_node_pair(cluster, server.create("pair").rpartition("/")[2], [server.port], CHANGES, lease=lease) as pair,
    ):
        for node in pair.nodes:
            node.start()
        for number in range(count):
            fault = FAULTS[number % len(FAULTS)]
            took_s[fault].append(fail_over(cluster, pair, fault, chance))
            print(f"{number + 1} {fault}: {took_s[fault][-1]:.1f} s", file=sys.stderr, flush=True)
        jobs = cluster.jobs
        cluster.wait(lambda: set(jobs.states().values()) <= {"COMPLETED"}, what="all jobs to end")
        lost, violations, tokens = jobs.lost(), cluster.log.violations, pair.tokens()
        orders = [entry for entry in pair.trace() if entry.what == "order"]
        double = pair.orders_without_lease()
    data = f"lease {lease}, seed {seed}, {len(orders)} orders, {len(tokens)} holders"
    for fault, each_s in took_s.items():
        if each_s:
            text = f"median {statistics.median(each_s):.1f} s of {len(each_s)}; {data}"
            yield Measured(f"{fault}: until the other agent's first order", max(each_s), "s", 30.0, False, text)
    yield Measured("orders of an agent after another has taken the lease", len(double), "", 0.0, False, data)
    grow = sum(later <= earlier for earlier, later in pairwise(tokens))
    yield Measured("tokens that did not grow", grow, "", 0.0, False, data)
    yield Measured("violated invariants, and lost jobs", len(violations) + len(lost), "", 0.0, False, data)


def main() -> int:
    """Return 0 if every bar was reached."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.failover", description=__doc__)
    arguments.add_argument("--count", type=int, default=100, help="how often the active agent fails")
    arguments.add_argument("--lease", default="5s", help="length of the lease")
    arguments.add_argument("--seed", type=int, default=1, help="of the moments")
    given = arguments.parse_args()
    measured = list(figures(given.count, given.lease, given.seed))
    print_table(measured)
    return 0 if all(each.reached for each in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
