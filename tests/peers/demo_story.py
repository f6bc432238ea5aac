"""Tells in plain words what happens on a powered cluster: nodes, jobs, and the order of the queue."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from power_log import PowerEvent
from powered_cluster import PoweredCluster
from powered_node import BUSY_W, OFF_W
from slurm_jobs import Traced

NODE_WORDS = {
    "soft_off": "[blue]{node} is told to shut down: nobody needs it",
    "off": "[blue]{node} sleeps: {off_w:g} W",
    "booting": "[yellow]{node} is woken",
    "up": "[green]{node} has booted",
}
LOST = "[bold red]{node} lost its power with a job on it: {jobs}"


@dataclass
class Story:
    """What has been told. `begin_s` is the Unix second that counts as 0."""

    cluster: PoweredCluster
    begin_s: float
    _events: int = 0
    _traced: int = 0
    _order: list[str] = field(default_factory=list)
    _later: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._events = len(self.cluster.log.events())

    def news(self) -> list[str]:
        """Return what has happened since the last time, a line each, in the order of time."""
        told = sorted([*self._of_nodes(), *self._of_jobs()])
        now_s = time.time()
        told += [(now_s, line) for line in self._of_queue()]
        return [f"{at_s - self.begin_s:5.0f} s  {line}" for at_s, line in told]

    def picture(self) -> str:
        """Return the present in one line."""
        nodes = self.cluster.nodes.values()
        up, watts = sum(node.watts > OFF_W for node in nodes), sum(node.watts for node in nodes)
        states = list(self.cluster.jobs.states().values())
        waiting, done = states.count("PENDING"), states.count("COMPLETED")
        jobs = f"{waiting} jobs wait, {len(states) - waiting - done} run or start, {done} done"
        return f"{up} of {len(nodes)} nodes on, {watts:,.0f} W; {jobs}"

    def _of_nodes(self) -> Iterator[tuple[float, str]]:
        events = self.cluster.log.events()
        for each in events[self._events :]:
            if line := _said(each):
                yield each.at_s, line
        self._events = len(events)

    def _of_jobs(self) -> Iterator[tuple[float, str]]:
        trace = self.cluster.jobs.trace()
        names = dict(self.cluster.jobs.ask("%j")) if len(trace) > self._traced else {}
        for each in trace[self._traced :]:
            yield each.at_s, _job_said(each, names.get(each.job, ""))
        self._traced = len(trace)

    def _of_queue(self) -> Iterator[str]:
        asked = self.cluster.jobs.ask("%T|%Q|%S|%r")
        waiting = [(-int(priority), int(job)) for job, state, priority, *_ in asked if state == "PENDING"]
        order = [str(job) for _, job in sorted(waiting)]
        both = set(order) & set(self._order)
        before, after = ([job for job in jobs if job in both] for jobs in (self._order, order))
        if before != after:
            yield f"[magenta]the queue is in another order: {_first(after)}; it was {_first(before)}"
        self._order = order
        later = {job: start for job, state, _, start, why in asked if state == "PENDING" and why == "BeginTime"}
        for job in later.keys() - self._later.keys():
            yield f"[magenta]job {job} waits for a cheaper hour, until {later[job].partition('T')[2]} at the latest"
        self._later = later


def saved(cluster: PoweredCluster, seconds: float, idle_w: float) -> str:
    """Say what the nodes drew, and what they would have drawn with the idle ones left on."""
    drawn_j = sum(node.joules for node in cluster.nodes.values())
    asleep_s = sum(node.asleep_s for node in cluster.nodes.values())
    left_on_j = drawn_j + asleep_s * (idle_w - OFF_W)
    share = asleep_s / (seconds * len(cluster.nodes))
    less = f"{100 * (1 - drawn_j / left_on_j):.0f} % less than with all nodes left on" if left_on_j else ""
    return f"The outlets delivered {drawn_j / 3600:,.1f} Wh, {less}; a node slept {share:.0%} of the time."


def _said(event: PowerEvent) -> str:
    words = {"node": event.node, "off_w": OFF_W, "busy_w": BUSY_W, "jobs": ", ".join(event.jobs)}
    line = LOST if event.jobs and event.what in ("off", "hard_off") else NODE_WORDS.get(event.what, "")
    return line.format_map(words)


def _job_said(traced: Traced, name: str) -> str:
    words = "starts on" if traced.what == "start" else "is done on"
    return f"job {traced.job} ({name}) {words} {traced.nodes}"


def _first(jobs: list[str]) -> str:
    return ", ".join(jobs[:6]) + (", ..." if len(jobs) > 6 else "")
