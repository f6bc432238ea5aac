"""Makes the case of a comparison from a log and the settings: the machine, the jobs' power, the electricity."""

from dataclasses import dataclass, replace
from datetime import UTC

from offpeak.model.job_power import JobPower, job_power_of
from offpeak.model.jobs import Jobs, RejectedJobs, Trace
from offpeak.model.local_time import parse_zone
from offpeak.model.node_class import NodeClass
from offpeak.model.node_class_file import node_class_named
from offpeak.model.node_states import DEPTHS
from offpeak.prices.alignment import LogSpan
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.table import Settings
from plugin.capacity.port import Fleet
from sim_backend.basis import Basis, basis_of
from sim_backend.compare import Case, guessed_end_s
from sim_backend.cooling import room_of
from sim_backend.electricity import carbon_of, prices_of
from sim_backend.machine_size import overload_note, units_of
from sim_backend.outcome import Machine
from sim_backend.powered_replay import PoweredMachine
from sim_backend.traces.fitting import runnable


@dataclass(frozen=True)
class Prepared:
    """A case, what was left out of it, and what a reader should know of it, in sentences."""

    case: Case
    rejected: tuple[RejectedJobs, ...]
    notes: tuple[str, ...]
    power: JobPower
    units_per_node: int
    basis: Basis


def prepare(trace: Trace, settings: Settings, *, start: str | None, whole: Trace | None = None) -> Prepared:
    """Return the case of a log under these settings; `whole` is the log before it was cut, if it was.

    BadTrace if no job can run, BadPrices if the prices do not fit, BadInput for an unknown node class.
    """
    units = units_of(trace, settings.machine, whole)
    jobs, rejected = runnable(replace(trace, jobs=units.jobs), units.size)
    node_class, class_notes = node_class_of(settings)
    power = job_power_of(jobs, settings.power, units.per_node, node_class)
    log = log_span(trace, jobs)
    prices = prices_of(log, settings.prices, start)
    idle_w = node_class.idle_w if node_class else settings.power.idle_node_w
    machine = Machine(units.size, idle_w / units.per_node)
    nodes = PoweredMachine(units.size, units.per_node, node_class, settings.power.seed) if node_class else None
    carbon = carbon_of(log, settings.carbon, prices.laid)
    draw_w = power.draw_w(settings.power.seed)
    room = room_of(settings.plan, full_power_w=machine.size * max(machine.idle_w, float(draw_w.max())))
    case = Case(jobs, draw_w, machine, prices, carbon, nodes, settings.capacity.sla, room)
    overload = overload_note(jobs, units.size)
    notes = (*trace.notes, *units.notes, *overload, *class_notes, *power.notes, *([room.note] if room else []))
    basis = basis_of(units, prices.laid, power, draw_w, settings.power, node_class)
    return Prepared(case, rejected, notes, power, units.per_node, basis)


ASSUMED_CLASS = "server"


def node_class_of(settings: Settings) -> tuple[NodeClass | None, tuple[str, ...]]:
    """Return the node class of the settings, and what was assumed; None where nodes need none."""
    named = settings.power.node_class
    if named is None and settings.capacity.policies == CapacitySettings().policies:
        return None, ()
    node_class = node_class_named(named or ASSUMED_CLASS)
    depths = ", ".join(f"{DEPTHS[depth.depth]} {depth.power_w:g} W" for depth in node_class.depths)
    said = "" if named else " (assumed; --node-class says otherwise)"
    return node_class, (
        f"node class: {node_class.name}{said}, idle {node_class.idle_w:g} W, {depths or 'never sleeps'}",
    )


def fleet_of(case: Case) -> Fleet:
    """Return what capacity policies have to know of the case's machine, jobs and prices."""
    assert case.nodes is not None
    jobs = case.jobs
    span_s = int((jobs.submit_s + jobs.runtime_s).max() - jobs.submit_s[0])
    demand = float((jobs.size * jobs.runtime_s).sum())
    laid = case.prices.laid.until(guessed_end_s(case))
    return Fleet(
        nodes=case.nodes.nodes,
        units_per_node=case.nodes.units_per_node,
        node_class=case.nodes.node_class,
        load=min(1.0, demand / (case.machine.size * max(1, span_s))),
        price_at_s=laid.series.start_s - laid.offset_s,
        price_per_mwh=laid.series.value,
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
