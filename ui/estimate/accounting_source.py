"""Find the accounting of a cluster: the log that the user names, else that of its scheduler; and its nodes."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo

from offpeak.errors import BadInput, BadTrace, SchedulerError
from offpeak.files import LongText
from offpeak.model.cluster import UNKNOWN, Cluster
from offpeak.model.cluster_file import read_cluster
from offpeak.model.jobs import NUMBERS_ONLY, LogNames, Trace
from offpeak.model.limits import Qos
from offpeak.model.zones import machine_zone, parse_zone, zone_text
from offpeak.plugin.pbs.accounting import ACCOUNTING, accounting_text, openpbs_accounting_folder
from offpeak.plugin.scheduler.cluster_view import cluster_of, requested_features
from offpeak.plugin.scheduler.registry import OPENPBS, SIMULATED, SLURM, scheduler_name, scheduler_of
from offpeak.plugin.slurm.accounting import read_priority, read_qos, sacct_text
from offpeak.plugin.slurm.nodes import read_machine
from offpeak.settings.replay import LogSettings, MachineSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.traces.filters import anonymised, anonymised_cluster, last_days
from offpeak.sim_backend.traces.read import read_log, trace_of_text
from offpeak.sim_backend.traces.slurm.read import sacct_trace
from offpeak.ui.terminal import task_progress


@dataclass(frozen=True)
class Accounting:
    """A log, the number of nodes if the scheduler reports it, and the cluster if the settings or it describe one.

    `logged_names` are the names of the log before they were made anonymous.
    """

    trace: Trace
    nodes: int | None = None
    cluster: Cluster | None = None
    logged_names: LogNames = NUMBERS_ONLY


def zone_of(log: LogSettings) -> tzinfo:
    """Return the time zone of times without an offset: the configured one, else that of this machine."""
    return parse_zone(log.time_zone) if log.time_zone else machine_zone()


def log_on_cluster(source: str | LongText, settings: Settings, *, lenient: bool) -> Accounting:
    """Return the log with the cluster of the settings, both anonymised if that is set.

    `source` names the log, or is the text of a table with the columns of sacct.
    """
    zone = zone_of(settings.log)
    if isinstance(source, LongText):
        return _accounting(last_days(sacct_trace(source, "table", lenient=lenient, zone=zone), None), settings)
    return _accounting(read_log(source, lenient=lenient, zone=zone), settings)


def _accounting(trace: Trace, settings: Settings, nodes: int | None = None) -> Accounting:
    log, names = settings.log, trace.names
    if trace.time_zone is None and log.time_zone is not None:
        trace = replace(trace, time_zone=zone_text(zone_of(log)))
    found = Accounting(anonymised(trace) if log.anonymise else trace, nodes, logged_names=names)
    cluster = cluster_of_settings(settings.machine)
    return found if cluster is None else on_cluster(found, cluster, settings.log)


def on_cluster(accounting: Accounting, cluster: Cluster, log: LogSettings) -> Accounting:
    """Return the accounting with that cluster, anonymised if that is set."""
    if log.anonymise:
        cluster = anonymised_cluster(cluster, accounting.logged_names, accounting.trace.names)
    return replace(accounting, cluster=cluster)


def site_cluster(settings: Settings, features: Collection[str] | None = None) -> Cluster:
    """Return the cluster that the site's scheduler reports; raise SchedulerError if it does not answer.

    Nodes that differ only in other features than `features` are in one pool; by default each feature counts.
    """
    scheduler = scheduler_of(settings)
    view, traits = scheduler.view(), scheduler.traits()
    if not view.nodes:
        raise SchedulerError(
            "the scheduler reports no nodes", hint="`offpeak check` tests whether offpeak may see them"
        )
    if features is None:
        features = frozenset(name for node in view.nodes for name in node.features)
    timing = traits.timing
    if timing.text:
        cycle = f"offpeak orders the queue every {settings.agent.cycle_s} s"
        timing = timing._replace(order_interval_s=settings.agent.cycle_s, text=f"{timing.text}; {cycle}")
    cluster = replace(cluster_of(view, traits.partitions, features=features, limits=traits.limits), timing=timing)
    if scheduler_name(settings) != SLURM:
        return cluster
    # QOS that neither limit nor preempt have names that the log knows, and priorities.
    try:
        qos = cluster.qos or {name: Qos(name, priority=each.priority) for name, each in read_qos().items()}
    except SchedulerError:
        qos = {}
    return replace(cluster, qos=qos, priority=read_priority())


def with_site_cluster(accounting: Accounting, settings: Settings) -> Accounting:
    """Return the accounting of the site's scheduler on the cluster that it reports; without it, if it reports none."""
    trace = accounting.trace
    try:
        cluster = site_cluster(settings, requested_features(trace.requests))
        if trace.units_per_node != 1 and any(pool.node_type.cores == UNKNOWN for pool in cluster.pools):
            raise SchedulerError("the scheduler does not report their processors", hint="")
    except SchedulerError as problem:
        note = f"the nodes of the cluster are not known ({problem}): all nodes count as equal"
        return replace(accounting, trace=replace(trace, notes=(*trace.notes, note)))
    return on_cluster(accounting, cluster, settings.log)


def cluster_of_settings(machine: MachineSettings) -> Cluster | None:
    """Return the cluster that the file of the settings describes; BadInput if its size is set besides."""
    if machine.cluster is None:
        return None
    for value, name in ((machine.nodes, "--nodes"), (machine.processors_per_node, "--processors-per-node")):
        if value is not None:
            raise BadInput(
                f"--cluster and {name} cannot be combined", hint=f"{machine.cluster} says how large nodes are"
            )
    return read_cluster(machine.cluster)


def accounting_of(source: str | None, days: int, settings: Settings, *, lenient: bool) -> Accounting:
    """Return the named accounting, else the last days of the site's scheduler; raise BadTrace if there is none."""
    log = settings.log
    if source is not None:
        return log_on_cluster(source, settings, lenient=lenient)
    scheduler = scheduler_name(settings)
    if scheduler == SLURM:
        machine = read_machine()
        with task_progress("days of sacct") as progress:
            jobs = LongText(sacct_text(days, progress=progress))
        trace = trace_of_text(jobs, "sacct", lenient=lenient, zone=zone_of(log))
        return _accounting(replace(trace, name=machine.cluster or "sacct"), settings, machine.nodes)
    hint = "name one: offpeak estimate sacct.txt; `offpeak estimate --help` lists the formats"
    if scheduler is None:
        raise BadTrace("no log is given, and this machine has neither Slurm's sacct nor PBS's accounting", hint=hint)
    if scheduler == SIMULATED:
        raise BadTrace("no log is given, and the simulated scheduler keeps no accounting", hint=hint)
    folder = openpbs_accounting_folder() if scheduler == OPENPBS else settings.pbs.home / ACCOUNTING
    zone = zone_of(log)
    text = accounting_text(folder, datetime.now(zone).date() - timedelta(days=days))
    return _accounting(trace_of_text(text, str(folder), lenient=lenient, zone=zone), settings)


def with_nodes(settings: Settings, accounting: Accounting) -> Settings:
    """Return the settings with the size of the machine that the scheduler reports, unless one is set."""
    if settings.machine.nodes is not None or accounting.nodes is None:
        return settings
    return replace(settings, machine=replace(settings.machine, nodes=accounting.nodes))
