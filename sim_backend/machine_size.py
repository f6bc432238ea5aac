"""How large the machine of a log is, and the unit that both are counted in."""

from dataclasses import dataclass

import numpy as np

from offpeak.errors import BadTrace
from offpeak.jobs import Int64, Jobs, Trace
from offpeak.plural import counted
from offpeak.settings import MachineSettings
from sim_backend.traces.fitting import whole_nodes

OVERLOADED, MANY_JOBS, MANY_RUNS = 1.02, 1000, 5
"""The queue of a log grows without end from this load on, if it has so many jobs in so many times its longest run."""


@dataclass(frozen=True)
class Units:
    """The jobs in allocation units, the machine's number of them, how many are a node, and what was assumed."""

    jobs: Jobs
    size: int
    per_node: int
    notes: tuple[str, ...] = ()


def units_of(trace: Trace, machine: MachineSettings, whole: Trace | None = None) -> Units:
    """Return the log in whole nodes where its unit is the node or `processors_per_node` says how to count them.

    `whole` is the log before it was cut, if it was: what was in use in all of it tells more of the machine. BadTrace if
    the machine's size can be told from nothing.
    """
    seen = (whole or trace).jobs
    per_node = machine.processors_per_node
    if trace.units_per_node is None:
        return Units(whole_nodes(trace.jobs, per_node), _whole(trace, _told_size(trace, machine), per_node), 1)
    if trace.units_per_node > 1 and per_node > 1:
        return _accounted(whole_nodes(trace.jobs, per_node), machine, 1, whole_nodes(seen, per_node))
    return _accounted(trace.jobs, machine, trace.units_per_node, seen)


def _told_size(trace: Trace, machine: MachineSettings) -> int:
    """Return the machine's size in the log's own unit: as set, else as its header says, else the most in use at once.

    A header's processors come before its nodes: both count in the log's own unit.
    """
    told = machine.nodes or trace.processors or trace.nodes
    if told is None:
        widest = int(trace.jobs.size.max(initial=0))
        raise BadTrace(
            f"{trace.name}: its header does not say how large the machine is",
            hint=f"--nodes N, in the log's own unit; its widest job asks for {widest:,}",
        )
    return told


def _whole(trace: Trace, processors: int, per_node: int) -> int:
    if processors < per_node:
        raise BadTrace(
            f"{trace.name}: a machine of {processors} processors has no node of {per_node}",
            hint="a smaller --processors-per-node, or a larger --nodes, in the log's own unit",
        )
    return processors // per_node


def _accounted(jobs: Jobs, machine: MachineSettings, per_node: int, seen: Jobs) -> Units:
    """Return the units of an accounting log: it does not tell the machine's size, but what was in use."""
    used_nodes = -(-most_in_use(seen) // per_node)
    if machine.nodes is None:
        note = f"size of the machine: {counted(used_nodes, 'node')}, the most in use at once; --nodes N says otherwise"
        return Units(jobs, used_nodes * per_node, per_node, (note,))
    if used_nodes > machine.nodes:
        note = f"size of the machine: {counted(used_nodes, 'node')} were in use at once, not {machine.nodes:,}"
        return Units(jobs, used_nodes * per_node, per_node, (note,))
    return Units(jobs, machine.nodes * per_node, per_node)


def backlog_s(jobs: Jobs, size: int) -> int:
    """Return for how long the jobs would fill all of the machine beyond the time from first to last submission."""
    demand = float(np.dot(jobs.size.astype(np.float64), jobs.runtime_s))
    return max(0, int(demand / size) - int(jobs.submit_s[-1] - jobs.submit_s[0]))


def overload_note(jobs: Jobs, size: int) -> tuple[str, ...]:
    """Say if more work is submitted than the machine can do. Of few jobs, or days as long as a job, nothing follows."""
    span_s = int(jobs.submit_s[-1] - jobs.submit_s[0])
    load = 1 + backlog_s(jobs, size) / max(1, span_s)
    if load < OVERLOADED or len(jobs) < MANY_JOBS or span_s < MANY_RUNS * int(jobs.runtime_s.max()):
        return ()
    return (
        f"load {load:.2f}: the jobs need more than the machine has, so the queue grows without end; waits tell how long"
        " the log is, and conservative backfilling takes time with the square of that or more",
    )


def most_in_use(jobs: Jobs) -> int:
    """Return the most units that the jobs used at one time, as they were logged; at least those of the widest job."""
    starts, ends = jobs.logged_start_s, jobs.logged_start_s + jobs.runtime_s
    at_s: Int64 = np.concatenate([ends, starts])
    change = np.concatenate([-jobs.size, jobs.size])
    # A stable sort keeps ends before starts of the same second: their units are free again.
    in_use = np.cumsum(change[np.argsort(at_s, kind="stable")])
    return int(max(in_use.max(initial=0), jobs.size.max(initial=0)))
