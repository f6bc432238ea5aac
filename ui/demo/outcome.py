"""What the demo came to, beside the same jobs on the same cluster without offpeak."""

from collections.abc import Iterable
from dataclasses import dataclass

from offpeak.model.node_class import NodeClass
from plugin.scheduler.job import JobState
from sim_backend.scheduler.cluster import SimulatedCluster
from ui.demo.live_cluster import J_PER_MWH, UTILISATION, new_cluster, submit
from ui.demo.scenario import BEGIN_S, Coming, price_at

STEP_S = 30


@dataclass(frozen=True)
class Outcome:
    """Energy [J] and its cost [EUR]; jobs that were started and lost, their mean wait [s], and node-seconds of work."""

    energy_j: float
    cost: float
    started: int
    lost: int
    wait_s: float
    work_s: float


def outcome_of(cluster: SimulatedCluster, now_s: float, *, energy_j: float, cost: float) -> Outcome:
    """Return what a cluster has done until now; what it did later is left out."""
    begun = [job for job in cluster.jobs.values() if job.start_s is not None and job.start_s <= now_s]
    waits_s = [(job.start_s or 0.0) - job.submit_s for job in begun]
    work_s = sum((min(job.end_s or now_s, now_s) - (job.start_s or 0.0)) * job.nodes for job in begun)
    lost = sum(job.lost for job in begun)
    return Outcome(energy_j, cost, len(begun), lost, sum(waits_s) / max(1, len(waits_s)), work_s)


def without_offpeak(jobs: Iterable[Coming], nodes: tuple[str, ...], node_class: NodeClass, length_s: float) -> Outcome:
    """Return what the same jobs come to in the order of their coming, all nodes on all the time."""
    cluster, to_come = new_cluster(nodes), list(jobs)
    energy_j = cost = 0.0
    for at_s in range(BEGIN_S, BEGIN_S + int(length_s), STEP_S):
        while to_come and BEGIN_S + to_come[0].at_s <= at_s:
            submit(cluster, to_come.pop(0))
        cluster.step(at_s)
        step_j = STEP_S * _power_w(cluster, node_class)
        energy_j, cost = energy_j + step_j, cost + step_j / J_PER_MWH * price_at(at_s)
    return outcome_of(cluster, BEGIN_S + length_s, energy_j=energy_j, cost=cost)


def _power_w(cluster: SimulatedCluster, node_class: NodeClass) -> float:
    running = [job for job in cluster.jobs.values() if job.state is JobState.RUNNING]
    busy_w = sum(job.nodes * node_class.running_w(UTILISATION[job.name]) for job in running)
    return busy_w + (len(cluster.nodes) - sum(job.nodes for job in running)) * node_class.idle_w


def summary(with_: Outcome, without: Outcome) -> str:
    """Say both side by side."""
    rows = [
        ("", "with offpeak", "without"),
        ("energy", f"{with_.energy_j / 3.6e6:,.1f} kWh", f"{without.energy_j / 3.6e6:,.1f} kWh"),
        ("cost", f"{with_.cost:,.2f} EUR", f"{without.cost:,.2f} EUR"),
        ("jobs started", f"{with_.started}", f"{without.started}"),
        ("work done", f"{with_.work_s / 3600:,.0f} node-hours", f"{without.work_s / 3600:,.0f} node-hours"),
        ("mean wait", f"{with_.wait_s / 60:,.0f} min", f"{without.wait_s / 60:,.0f} min"),
        ("jobs lost", f"{with_.lost}", f"{without.lost}"),
    ]
    table = "\n".join(f"{name:14}{first:>18}{second:>18}" for name, first, second in rows)
    saved, share = without.cost - with_.cost, 1 - with_.cost / without.cost
    return f"{table}\n\nsaved: {saved:,.2f} EUR of {without.cost:,.2f}, {share:.0%} of the bill"
