"""How large the machine of a log is, and the unit that both are counted in."""

from dataclasses import dataclass, replace

import numpy as np

from offpeak.errors import BadTrace
from offpeak.model.arrays import Int64
from offpeak.model.jobs import Jobs, Trace
from offpeak.settings.replay import MachineSettings
from offpeak.sim_backend.traces.filters import whole_nodes
from offpeak.text import counted

OVERLOADED, MANY_JOBS, MANY_RUNS = 1.02, 1000, 5
"""From this load on the queue of a log with so many jobs, so many times its longest run, grows without end."""

OVERFULL_SHARE = 0.01
"""A log may use more than its machine for this share of the time, because with whole seconds jobs may overlap."""

NODES = "number of nodes, the most in use at once (--nodes)"
NAMED_NODES = "number of nodes, those that the jobs name (--nodes)"
PROCESSORS_PER_NODE = "processors per node (--processors-per-node)"
"""What may be assumed of a machine, with the option that declares it."""


@dataclass(frozen=True)
class AllocationUnits:
    """The jobs in allocation units, the machine's number of them, how many are a node, and what was assumed.

    `node_processors` is the mean number of processors of a node, `processors_range` the fewest and the most where nodes
    differ. `assumed` names facts that neither the log nor the settings
    state. `machine_nodes` is set where nodes have different numbers of units, of which `per_node` is the mean.
    """

    jobs: Jobs
    size: int
    per_node: int
    node_processors: int
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    machine_nodes: int | None = None
    processors_range: tuple[int, int] | None = None

    @property
    def nodes(self) -> int:
        """The number of nodes of the machine."""
        return self.size // self.per_node if self.machine_nodes is None else self.machine_nodes


def units_of(trace: Trace, machine: MachineSettings, whole: Trace | None = None) -> AllocationUnits:
    """Return the log in whole nodes where its unit is the node or `processors_per_node` says how to count them.

    `whole` is the log before it was cut, if what happened in it counts: what was in use in all of it tells more of the
    machine, and the machine holds it. Without it jobs only will be replayed, on the machine that the header tells.
    Raises BadTrace if nothing reveals the size of the machine.
    """
    # Others may have had the nodes of suspended jobs meanwhile: these count without a start.
    seen = (whole or trace).jobs
    if len((whole or trace).suspended):
        is_suspended = np.isin(seen.job_id, (whole or trace).suspended)
        seen = replace(seen, logged_start_s=np.where(is_suspended, -1, seen.logged_start_s))
    if trace.units_per_node is None:
        return _of_header(trace, machine, seen, holds_log=whole is not None)
    per_node = machine.processors_per_node or 1
    named = (whole or trace).named_nodes
    if trace.units_per_node > 1 and per_node > 1:
        return _accounted(whole_nodes(trace.jobs, per_node), machine, (1, per_node), whole_nodes(seen, per_node), named)
    node_processors = machine.processors_per_node or trace.processors_per_node or trace.units_per_node
    return _accounted(trace.jobs, machine, (trace.units_per_node, node_processors), seen, named)


def _of_header(trace: Trace, machine: MachineSettings, seen: Jobs, *, holds_log: bool) -> AllocationUnits:
    """Return the units of a log that has a header in place of nodes.

    Processors become whole nodes where the settings say how many a node has. Where only the header does, jobs keep
    their processors and share nodes.
    """
    # A header's processors come before its nodes: both count in the log's own unit.
    declared = machine.nodes or trace.processors or trace.nodes
    if declared is None:
        widest = int(trace.jobs.size.max(initial=0))
        raise BadTrace(
            f"{trace.name}: the log does not say how large the machine is",
            hint=f"--nodes N, in the log's own unit; its widest job asks for {widest:,}",
        )
    size, notes, assumed = declared, list[str](), list[str]()
    if (machine.nodes is None or holds_log) and _is_overfull(seen, declared):
        most = most_in_use(seen)
        contradiction = f"where {'its header' if machine.nodes is None else '--nodes'} says {declared:,}"
        if holds_log:
            size = most
            assumed.append(f"nodes, as {most:,} processors were in use at once {contradiction}")
        held = "" if holds_log else f"; replays hold {declared:,}, unless --nodes N says otherwise"
        notes.append(f"size of the machine: {most:,} processors were in use at once {contradiction}{held}")
    if machine.processors_per_node is not None:
        per_node = machine.processors_per_node
        nodes = _whole(trace, size, per_node)
        return AllocationUnits(whole_nodes(trace.jobs, per_node), nodes, 1, per_node, tuple(notes), tuple(assumed))
    has_both = trace.processors is not None and trace.nodes is not None
    per_node = max(1, round((trace.processors or 0) / (trace.nodes or 1))) if has_both else 1
    # A header's odd processors are part of a node more; what is set is not exceeded.
    nodes = _whole(trace, size, per_node) if size == machine.nodes else -(-size // per_node)
    declared_nodes = f"{counted(trace.nodes or 0, 'node')} with {trace.processors or 0:,} processors"
    if not has_both:
        assumed.append(PROCESSORS_PER_NODE)
    elif (trace.processors or 0) % (trace.nodes or 1):
        assumed.append(f"equal nodes, as the header has {declared_nodes} (--processors-per-node)")
    if per_node > 1:
        notes.append(f"counted in processors, {per_node} of them a node: the header has {declared_nodes}")
    return AllocationUnits(trace.jobs, nodes * per_node, per_node, per_node, tuple(notes), tuple(assumed))


def _whole(trace: Trace, processors: int, per_node: int) -> int:
    if processors < per_node:
        raise BadTrace(
            f"{trace.name}: a machine of {processors} processors has no node of {per_node}",
            hint="a smaller --processors-per-node, or a larger --nodes, in the log's own unit",
        )
    return processors // per_node


def _accounted(
    jobs: Jobs, machine: MachineSettings, node: tuple[int, int], seen: Jobs, named_nodes: int
) -> AllocationUnits:
    """Return the units of an accounting log: it does not tell the machine's size, but what was in use.

    `node` is how many units and how many processors a node has. Without `machine.nodes` the machine has the nodes that
    the jobs name, and at least those that were in use at once.
    """
    per_node, node_processors = node
    used_nodes = -(-most_in_use(seen) // per_node)
    if machine.nodes is not None:
        notes = list[str]()
        if used_nodes > machine.nodes:
            contradiction = f"{counted(used_nodes, 'node')} were in use at once, where --nodes says {machine.nodes:,}"
            notes.append(f"size of the machine: {contradiction}; replays hold {machine.nodes:,}")
        return AllocationUnits(jobs, machine.nodes * per_node, per_node, node_processors, tuple(notes))
    nodes, why, assumed = used_nodes, "the most in use at once", NODES
    if named_nodes > used_nodes:
        nodes, why, assumed = named_nodes, "as many as the jobs name", NAMED_NODES
    note = f"size of the machine: {counted(nodes, 'node')}, {why}; --nodes N says otherwise"
    return AllocationUnits(jobs, nodes * per_node, per_node, node_processors, (note,), (assumed,))


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
        f"the jobs need {load:.2f} times what the machine can do, so the queue grows without end; waits tell how long"
        " the log is, and conservative backfilling takes time with the square of that or more",
    )


def most_in_use(jobs: Jobs) -> int:
    """Return the most units that the jobs used at one time, as they were logged; at least those of the widest job."""
    _, in_use = _use_over_time(jobs)
    return int(max(in_use.max(initial=0), jobs.as_logged().size.max(initial=0)))


def _is_overfull(jobs: Jobs, size: int) -> bool:
    """Tell whether the jobs, as they were logged, used more than `size` units for longer than clocks explain."""
    at_s, in_use = _use_over_time(jobs)
    length_s = np.diff(at_s)
    held_s = int(length_s.sum())
    over_s = int(length_s[in_use[:-1] > size].sum())
    return over_s > OVERFULL_SHARE * held_s or float(np.dot(in_use[:-1], length_s)) > float(size) * held_s


def _use_over_time(jobs: Jobs) -> tuple[Int64, Int64]:
    """Return the seconds at which jobs with a known start began or ended, and the units in use from each on."""
    jobs = jobs.as_logged().take(jobs.logged_start_s >= 0)
    starts, ends = jobs.logged_start_s, jobs.logged_start_s + jobs.runtime_s
    at_s: Int64 = np.concatenate([ends, starts])
    change = np.concatenate([-jobs.size, jobs.size])
    # A stable sort keeps ends before starts of the same second: their units are free again.
    order = np.argsort(at_s, kind="stable")
    return at_s[order], np.cumsum(change[order])
