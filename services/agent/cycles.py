"""Scheduling cycles that the agent starts.

OpenPBS and Torque begin a cycle after a submission and the end of a job, and else every ten minutes. When a node has
come up, or when the time of a deferred job has come, the agent starts one, so that the job does not wait for the next.
"""

from collections.abc import Iterator

from offpeak.door.effect import Outcome
from offpeak.model.clock import backoff_s
from offpeak.model.orders import PowerState
from offpeak.plugin.scheduler.job import Job
from offpeak.plugin.scheduler.node import Node
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.power.door.scheduler_orders import SchedulerOrders
from offpeak.power.live.observe import SAME_CLOCK_S
from offpeak.services.agent.observer import ClusterObservation

FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 300.0
"""The pause after a cycle that the scheduler did not start; it doubles."""


class CycleStarter:
    """Starts a cycle for jobs that could start since the last view: their nodes have come up, or their time has come.

    A new one counts all nodes as come up. `next_begin_s` is when the next deferred job may start, None without one.
    """

    def __init__(self) -> None:
        self._at_s, self._open, self._awaited = 0, frozenset[str](), frozenset[str]()
        self._failures, self._not_before_s = 0, 0.0
        self.next_begin_s: int | None = None

    async def follow(self, observed: ClusterObservation, orders: SchedulerOrders) -> bool:
        """Start a cycle if the view shows a reason for one, at most one for each view; return whether it was started.

        It is started again after a pause if the scheduler did not take the order.
        """
        view = observed.view
        if view.at_s < self._at_s - SAME_CLOCK_S:
            # The clock was set back.
            self._at_s, self._not_before_s = view.at_s, 0.0
        if not observed.traits.needs_cycles or view.at_s < self._at_s:
            return False
        open_nodes = frozenset(node.name for node in view.nodes if _is_open(node))
        new_nodes, awaited, before_s = open_nodes - self._open, self._awaited, self._at_s
        deferred = [job for job in view.jobs if job.is_deferred(view.at_s)]
        self._at_s, self._open, self._awaited = view.at_s, open_nodes, frozenset(job.job_id for job in deferred)
        self.next_begin_s = min((job.begin_s for job in deferred if job.begin_s is not None), default=None)
        jobs: dict[tuple[str, ...], list[str]] = {}
        for job, hosts in _list_startable_jobs(view, open_nodes):
            has_begun = job.job_id in awaited or before_s < (job.begin_s or 0)
            if has_begun or not new_nodes.isdisjoint(hosts):
                jobs.setdefault(job.partitions, []).append(job.job_id)
        for partitions, names in jobs.items():
            if view.at_s >= self._not_before_s:
                more = f" and {len(names) - 1:,} more" if names[1:] else ""
                result = await orders.start_cycle(
                    ",".join(partitions), names, why=f"job {names[0]}{more} can start: nodes are up"
                )
                if result.done and not result.failed:
                    self._failures = 0
                    return True
                if not isinstance(result.answer, Outcome):
                    # What a mode refuses it will refuse again.
                    continue
                self._failures += 1
                pause_s = backoff_s(self._failures, first_s=FIRST_PAUSE_S, longest_s=LONGEST_PAUSE_S)
                self._not_before_s = view.at_s + pause_s
            self._awaited |= frozenset(names)
        return False


def _list_startable_jobs(view: SchedulerView, open_nodes: frozenset[str]) -> Iterator[tuple[Job, frozenset[str]]]:
    """Yield the waiting jobs whose planned nodes are all up and open, each with these nodes."""
    for job in view.jobs:
        hosts = frozenset(job.known_hosts)
        is_due = job.start_s is not None and job.start_s <= view.at_s and job.is_waiting(view.at_s)
        if is_due and hosts and hosts <= open_nodes:
            yield job, hosts


def _is_open(node: Node) -> bool:
    is_kept = node.closed or node.failed or node.reserved or node.is_marked
    return node.power is PowerState.ON and node.responds and not is_kept
