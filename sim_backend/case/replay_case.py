"""Makes the case of a comparison from a log and the settings: machine, job power, electricity, and what is assumed."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import partial

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.cluster import Cluster
from offpeak.model.constants import DAY_S
from offpeak.model.job_power import JobPower, MeasuredPower, UniformPower, job_power_of
from offpeak.model.jobs import NUMBERS_ONLY, Jobs, LogNames, RejectedJobs, Trace
from offpeak.model.limits import PriorityOrder
from offpeak.model.node_class import NodeClass, scale_node_class
from offpeak.model.node_class_file import node_class_named
from offpeak.model.node_states import DEPTHS
from offpeak.model.request import Request
from offpeak.model.weighing import check_carbon
from offpeak.model.zones import parse_zone
from offpeak.plugin.capacity.port import Fleet, TypeShare
from offpeak.prices.alignment import LogSpan, align_log
from offpeak.settings.capacity import DEFAULT_SLA, CapacitySettings
from offpeak.settings.replay import PowerSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.electricity import (
    AlignedSeries,
    CoolingConditions,
    ReplayPrices,
    carbon_of,
    prices_of,
    room_of,
)
from offpeak.sim_backend.case.machine_size import AllocationUnits, overload_note, units_of
from offpeak.sim_backend.case.site_jobs import site_jobs, site_units
from offpeak.sim_backend.case.site_priorities import SitePriorities
from offpeak.sim_backend.engine.classes import RequestClasses
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine
from offpeak.sim_backend.traces.filters import runnable

BUSY_WATTS, IDLE_WATTS = "watts of busy nodes (--power)", "watts of idle nodes (--idle-power)"

ASSUMED_CLASS = "server"
A_MONTH_S = 30 * DAY_S

TIMING_NOTE = "timing, as the scheduler is configured: {}; the time in which nodes complete jobs is not known"


@dataclass(frozen=True)
class ReplayMachine:
    """The machine of a replay: allocation units, and what an idle one draws [W]."""

    size: int
    idle_w: float


@dataclass(frozen=True)
class PoweredPools:
    """The nodes of several pools that can sleep: the class and the number of those of each pool.

    A node has `units_per_node` allocation units, the mean of all pools. `enclosures` are those of each pool's NodeLog.
    """

    classes: tuple[NodeClass, ...]
    sizes: tuple[int, ...]
    units_per_node: int
    enclosures: tuple[tuple[tuple[int, int], ...], ...] = ()

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return sum(self.sizes)


@dataclass(frozen=True)
class ReplayCase:
    """What is compared on: jobs that can all run, their draw per unit [W], the machine and its electricity.

    `carbon` is an aligned series or a constant [g/kWh], or None. `nodes` is the machine as nodes that can sleep, None
    where none does; `sla` the slowdown above which a job counts as delayed too long. Without a `room` cooling is not
    counted. `cluster` has the pools of nodes where the machine is described by them, else None. `requests` are those
    that `jobs.request` numbers; with `cluster` each job has one, and `classes` are what the engine makes of them.
    `priorities` order the jobs by Slurm's formula; without them recorded priorities order them where they have some,
    else their submission. `names` are those of the log. Jobs with `left_out_share` of its node-hours are left out.
    `without_limit` are the ids of jobs without a time limit, whose estimates are their run times.
    """

    jobs: Jobs
    node_power_w: Float64
    machine: ReplayMachine
    prices: ReplayPrices
    carbon: AlignedSeries | float | None
    nodes: PoweredMachine | PoweredPools | None = None
    sla: float = DEFAULT_SLA
    room: CoolingConditions | None = None
    cluster: Cluster | None = None
    requests: tuple[Request, ...] = ()
    classes: RequestClasses | None = None
    priorities: SitePriorities | None = None
    names: LogNames = NUMBERS_ONLY
    left_out_share: float = 0.0
    without_limit: Int64 = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def order(self) -> PriorityOrder:
        """By what the jobs of one tier are ordered."""
        if self.priorities is not None:
            return PriorityOrder.MULTIFACTOR
        has_priorities = self.cluster is not None and self.jobs.priority is not None
        return PriorityOrder.RECORDED if has_priorities else PriorityOrder.SUBMISSION

    def aligned(self, offset_s: int) -> "ReplayCase":
        """Return the case with its prices at that offset, and with the carbon intensity of the dates that they get."""
        aligned, carbon = self.prices.aligned, self.carbon
        if isinstance(carbon, AlignedSeries):
            last_s = int((self.jobs.submit_s + self.jobs.runtime_s).max())
            log = LogSpan(int(self.jobs.submit_s[0]), last_s, offset_s, aligned.zone)
            carbon = replace(carbon, offset_s=align_log(log, carbon.series).offset_s)
        prices = replace(self.prices, aligned=replace(aligned, offset_s=offset_s))
        return replace(self, prices=prices, carbon=carbon)

    @property
    def is_mixed(self) -> bool:
        """Whether nodes differ, are shared or have limits, or jobs have priorities or stop others."""
        cluster = self.cluster
        return isinstance(self.nodes, PoweredPools) or (
            cluster is not None
            and (
                len(cluster.pools) > 1
                or self.machine.size != cluster.nodes
                or self.order is not PriorityOrder.SUBMISSION
                or cluster.preempts
                or any(map(cluster.limits_of, self.requests))
            )
        )

    def notes_until(self, trace_s: int) -> tuple[str, ...]:
        """Return how prices and carbon intensity lie on the log up to that second of the trace, in sentences."""
        aligned = (self.prices.aligned, self.carbon)
        return tuple(note for each in aligned if isinstance(each, AlignedSeries) for note in each.notes_until(trace_s))


@dataclass(frozen=True)
class Basis:
    """A description of the prices with their notes and assumptions ("" for none), and of the machine.

    `processors_per_node` is the mean over the nodes, `node_processors` the fewest and the most. `busy_w` is the lowest
    and the highest power of a busy node; both are the mean over the jobs if powers are not random. `busy_source` is
    their origin, `idle_source` that of `idle_w`, if it is not a setting. `assumed` names each undeclared fact of the
    machine, with the option that declares it.
    """

    prices: str
    prices_notes: tuple[str, ...]
    prices_assumed: str
    nodes: int
    processors_per_node: int
    node_processors: tuple[int, int]
    busy_w: tuple[float, float]
    busy_source: str
    idle_w: float
    assumed: tuple[str, ...]
    idle_source: str = ""


def basis_of(
    units: AllocationUnits,
    aligned: AlignedSeries,
    power: JobPower,
    draw_w: Float64,
    settings: PowerSettings,
    idle_w: float,
    cluster: Cluster | None,
) -> Basis:
    """Return the basis of the figures of these jobs; `draw_w` is the power of each per unit [W], `idle_w` per node."""
    if isinstance(power.model, UniformPower):
        busy_w = power.model.low_w, power.model.high_w
    else:
        weights = np.maximum(power.jobs.size * power.jobs.runtime_s, 1)
        busy_w = (float(np.average(draw_w, weights=weights)) * power.units_per_node,) * 2
    tariff = aligned.tariff
    notes = () if tariff else aligned.notes
    prices = tariff.description if tariff else "; ".join((f"{aligned.series.source} in {aligned.series.unit}", *notes))
    assumed = "; ".join(filter(None, (tariff.assumed if tariff else "", aligned.assumed)))
    is_idle_assumed = settings.node_class is None and settings.idle_w is None and not is_every_class_named(cluster)
    return Basis(
        prices=prices,
        prices_notes=(aligned.assumed,) if aligned.assumed else notes,
        prices_assumed=assumed,
        nodes=units.nodes,
        processors_per_node=units.node_processors,
        node_processors=units.processors_range or (units.node_processors, units.node_processors),
        busy_w=busy_w,
        busy_source="measured in the log, on average" if power.model == MeasuredPower() else settings.job or "",
        idle_w=idle_w,
        idle_source="by power_class, on average" if has_classes(cluster) else "",
        assumed=(
            *units.assumed,
            *([BUSY_WATTS] if power.assumed else []),
            *([IDLE_WATTS] if is_idle_assumed else []),
        ),
    )


@dataclass(frozen=True)
class PreparedCase:
    """A case, the jobs that were left out, and remarks for readers."""

    case: ReplayCase
    rejected: tuple[RejectedJobs, ...]
    notes: tuple[str, ...]
    power: JobPower
    units_per_node: int
    basis: Basis


def prepare(
    trace: Trace, settings: Settings, *, start: str | None, whole: Trace | None = None, cluster: Cluster | None = None
) -> PreparedCase:
    """Return the case of a log under these settings; `whole` is the log before it was cut, if it was.

    With a `cluster` the jobs are replayed on its pools of nodes. Raises BadTrace if no job can run, BadPrices if the
    prices do not fit, BadInput for an unknown node class.
    """

    def used_unit_s(jobs: Jobs) -> float:
        return float(np.dot(np.maximum(jobs.size, 0).astype(np.float64), np.maximum(jobs.runtime_s, 0)))

    node_class, class_notes = node_class_of(settings, cluster)
    priorities, classes = None, None
    if cluster is None:
        units = units_of(trace, settings.machine, whole)
        jobs, rejected = runnable(replace(trace, jobs=units.jobs), units.size)
        requests, site_notes = trace.requests, tuple[str, ...]()
    else:
        units, site = site_units(trace, cluster), site_jobs(trace, cluster)
        jobs, rejected, requests, site_notes = site.jobs, site.rejected, site.requests, site.notes
        priorities, classes = site.priorities, site.classes
    named_class = node_class if settings.power.node_class else None
    power = job_power_of(jobs, settings.power, units.per_node, named_class)
    log = log_span(trace, jobs)
    prices = prices_of(log, settings.prices, start)
    idle_w = mean_idle_w(cluster, node_class.idle_w if node_class else settings.power.idle_node_w)
    units_per_node = units.per_node if units.machine_nodes is None else units.size / units.nodes
    machine = ReplayMachine(units.size, idle_w / units_per_node)
    carbon = carbon_of(log, settings.carbon, prices.aligned)
    check_carbon(prices.weighing, is_known=carbon is not None)
    draw_w = power.draw_w(settings.power.seed)
    room = room_of(settings.plan, full_power_w=machine.size * max(machine.idle_w, float(draw_w.max())))
    case = ReplayCase(
        jobs=jobs,
        node_power_w=draw_w,
        machine=machine,
        prices=prices,
        carbon=carbon,
        sla=settings.capacity.sla,
        room=room,
        cluster=cluster,
        requests=requests,
        classes=classes,
        priorities=priorities,
        names=trace.names,
        without_limit=trace.without_estimate,
        left_out_share=1 - used_unit_s(jobs) / max(used_unit_s(units.jobs), 1.0),
    )
    if node_class is not None and cluster is not None and case.is_mixed:
        case = replace(case, nodes=powered_pools(cluster, node_class, units.per_node))
    elif node_class is not None:
        nodes = PoweredMachine(machine.size, units.per_node, node_class, settings.power.seed)
        case = replace(case, nodes=nodes)
    notes = (
        *trace.notes,
        *units.notes,
        *site_notes,
        *([TIMING_NOTE.format(cluster.timing.text)] if cluster and cluster.timing.text and case.is_mixed else []),
        *overload_note(jobs, units.size),
        *class_notes,
        *power.notes,
        *([room.note] if room else []),
        *([f"the order goes by {prices.weighing} (--decide-by)"] if prices.weighing.needs_carbon else []),
    )
    basis = basis_of(units, prices.aligned, power, draw_w, settings.power, idle_w, cluster)
    return PreparedCase(case, rejected, notes, power, units.per_node, basis)


def is_every_class_named(cluster: Cluster | None) -> bool:
    """Return whether all nodes of the cluster have a power class of their own."""
    return cluster is not None and all(pool.node_type.power_class for pool in cluster.pools)


def has_classes(cluster: Cluster | None) -> bool:
    """Return whether some nodes of the cluster have a power class of their own."""
    return cluster is not None and any(pool.node_type.power_class for pool in cluster.pools)


def mean_idle_w(cluster: Cluster | None, default_w: float) -> float:
    """Return the mean draw of the idle nodes: those of a pool with a power class draw as it says.

    Raises BadInput for a class that is not known.
    """
    if cluster is None:
        return default_w
    named = ((pool.nodes, pool.node_type.power_class) for pool in cluster.pools)
    watts = sum(nodes * (node_class_named(name).idle_w if name else default_w) for nodes, name in named)
    return watts / cluster.nodes


def node_class_of(settings: Settings, cluster: Cluster | None = None) -> tuple[NodeClass | None, tuple[str, ...]]:
    """Return the class of nodes that have none of their own, and what was assumed; None where no node needs a class.

    An idle node draws what the settings say, else what the named class does, else what is assumed of any node. The
    other watts of the class are scaled with it. If the cluster has one pool, its power class is that of all nodes.
    """
    named, idle_w = settings.power.node_class, settings.power.idle_w
    if named is None and settings.capacity.policies == CapacitySettings().policies and not has_classes(cluster):
        return None, ()
    if cluster is not None and len(cluster.pools) == 1 and (own := cluster.pools[0].node_type.power_class):
        return node_class_named(own), ()
    node_class, scaled = node_class_named(named or ASSUMED_CLASS), ""
    if named is None or idle_w is not None:
        node_class, scaled = scale_node_class(node_class, settings.power.idle_node_w), "scaled to "
    depths = ", ".join(f"{DEPTHS[depth.depth]} {depth.power_w:.4g} W" for depth in node_class.depths)
    origin = "" if named else " (assumed; --node-class says otherwise)"
    return node_class, () if is_every_class_named(cluster) else (
        f"node class: {node_class.name}{origin}, {scaled}idle {node_class.idle_w:g} W, {depths or 'never sleeps'}",
    )


def powered_pools(cluster: Cluster, default: NodeClass, units_per_node: int) -> PoweredPools:
    """Return the pools with the class of their `power_class`, the default where they name none.

    Raises BadInput for a class that is not known.
    """
    named = (pool.node_type.power_class for pool in cluster.pools)
    classes = tuple(node_class_named(name) if name else default for name in named)
    return PoweredPools(classes, tuple(pool.nodes for pool in cluster.pools), units_per_node)


def fleet_of(case: ReplayCase) -> Fleet:
    """Return the machine of equal nodes, its jobs and its prices for capacity policies."""
    assert isinstance(case.nodes, PoweredMachine)
    return _fleet(case)(case.nodes.nodes, case.nodes.units_per_node, case.nodes.node_class)


def pool_fleets_of(case: ReplayCase) -> tuple[Fleet, ...]:
    """Return a fleet for each pool of nodes; the load of each is taken to be that of the cluster."""
    assert isinstance(case.nodes, PoweredPools)
    pools, fleet = case.nodes, _fleet(case)
    shares, before = {}, 0
    for pool in sorted(range(len(pools.sizes)), key=lambda each: -pools.sizes[each]):
        shares[pool] = TypeShare(before, before + pools.sizes[pool], pools.nodes)
        before += pools.sizes[pool]
    return tuple(
        fleet(nodes, 1, node_class, share=shares[pool])
        for pool, (nodes, node_class) in enumerate(zip(pools.sizes, pools.classes, strict=True))
    )


def _fleet(case: ReplayCase) -> Callable[..., Fleet]:
    jobs = case.jobs
    span_s = int((jobs.submit_s + jobs.runtime_s).max() - jobs.submit_s[0])
    demand = float((jobs.size * jobs.runtime_s).sum())
    aligned = case.prices.aligned.until(guessed_end_s(case))
    return partial(
        Fleet,
        load=Fleet.mean_load(demand, case.machine.size, max(1, span_s)),
        price_at_s=aligned.series.start_s - aligned.offset_s,
        price_per_mwh=aligned.series.value,
    )


def log_span(trace: Trace, jobs: Jobs) -> LogSpan:
    """Return the time that the jobs need at least, on the log's own clock."""
    return LogSpan(
        first_s=int(jobs.submit_s[0]),
        last_s=int((jobs.submit_s + jobs.runtime_s).max()),
        unix_start_s=trace.unix_start_s,
        zone=parse_zone(trace.time_zone) if trace.time_zone else UTC,
        is_zone_assumed=not trace.time_zone,
    )


def guessed_end_s(case: ReplayCase) -> int:
    """Return a second by which most schedules have ended: a tenth of the log's length and a month after it."""
    jobs = case.jobs
    first_s, last_s = int(jobs.submit_s[0]), int(jobs.submit_s[-1])
    return last_s + (last_s - first_s) // 10 + int(jobs.runtime_s.max()) + A_MONTH_S
