"""Find the accounting of a cluster: the log that the user names, else that of its scheduler."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo

from offpeak.errors import BadInput, BadTrace
from offpeak.files import LongText
from offpeak.model.cluster import Cluster
from offpeak.model.cluster_file import read_cluster
from offpeak.model.jobs import Trace
from offpeak.model.local_time import machine_zone, parse_zone, zone_text
from offpeak.settings.replay import LogSettings, MachineSettings
from offpeak.settings.table import Settings
from plugin.pbs.accounting import ACCOUNTING, accounting_text, openpbs_accounting_folder
from plugin.scheduler.registry import OPENPBS, SIMULATED, SLURM, scheduler_name
from plugin.slurm.accounting import sacct_text
from plugin.slurm.nodes import read_machine
from sim_backend.traces.filters import anonymised, anonymised_cluster
from sim_backend.traces.read import read_log, trace_of_text


@dataclass(frozen=True)
class Accounting:
    """A log, the number of nodes if the scheduler reports it, and the cluster if the settings or it describe one."""

    trace: Trace
    nodes: int | None = None
    cluster: Cluster | None = None


def zone_of(log: LogSettings) -> tzinfo:
    """Return the time zone of times without an offset: the configured one, else that of this machine."""
    return parse_zone(log.time_zone) if log.time_zone else machine_zone()


def log_of(source: str, log: LogSettings, *, lenient: bool) -> Trace:
    """Return the named log, anonymised if that is set."""
    return _as_set(read_log(source, lenient=lenient, zone=zone_of(log)), log)


def log_on_cluster(source: str, settings: Settings, *, lenient: bool) -> Accounting:
    """Return the named log with the cluster of the settings, both anonymised if that is set."""
    log, cluster = settings.log, cluster_of_settings(settings.machine)
    trace = read_log(source, lenient=lenient, zone=zone_of(log))
    shown = _as_set(trace, log)
    if cluster is not None and log.anonymise:
        cluster = anonymised_cluster(cluster, trace.names, shown.names)
    return Accounting(shown, cluster=cluster)


def cluster_of_settings(machine: MachineSettings) -> Cluster | None:
    """Return the cluster that the file of the settings describes; BadInput if its size is set besides."""
    if machine.cluster is None:
        return None
    for value, name in ((machine.nodes, "--nodes"), (machine.processors_per_node, "--processors-per-node")):
        if value is not None:
            raise BadInput(
                f"--cluster and {name} exclude each other", hint=f"{machine.cluster} says how large nodes are"
            )
    return read_cluster(machine.cluster)


def accounting_of(source: str | None, days: int, settings: Settings, *, lenient: bool) -> Accounting:
    """Return the named accounting, else the last days of the site's scheduler; raise BadTrace if there is none."""
    log = settings.log
    if source is not None:
        return log_on_cluster(source, settings, lenient=lenient)
    scheduler = scheduler_name(settings)
    if scheduler == SLURM:
        return _of_slurm(days, log, lenient=lenient)
    hint = "name one: offpeak estimate sacct.txt; `offpeak estimate --help` says what is read"
    if scheduler is None:
        raise BadTrace("no log is given, and this machine has neither Slurm's sacct nor PBS's accounting", hint=hint)
    if scheduler == SIMULATED:
        raise BadTrace("no log is given, and the simulated scheduler keeps no accounting", hint=hint)
    folder = openpbs_accounting_folder() if scheduler == OPENPBS else settings.pbs.home / ACCOUNTING
    zone = zone_of(log)
    text = accounting_text(folder, datetime.now(zone).date() - timedelta(days=days))
    return Accounting(_as_set(trace_of_text(text, str(folder), lenient=lenient, zone=zone), log))


def with_nodes(settings: Settings, accounting: Accounting) -> Settings:
    """Return the settings with the size of the machine that the scheduler reports, unless one is set."""
    if settings.machine.nodes is not None or accounting.nodes is None:
        return settings
    return replace(settings, machine=replace(settings.machine, nodes=accounting.nodes))


def _of_slurm(days: int, log: LogSettings, *, lenient: bool) -> Accounting:
    machine = read_machine()
    trace = trace_of_text(LongText(sacct_text(days)), "sacct", lenient=lenient, zone=zone_of(log))
    return Accounting(_as_set(replace(trace, name=machine.cluster or "sacct"), log), machine.nodes)


def _as_set(trace: Trace, log: LogSettings) -> Trace:
    if trace.time_zone is None and log.time_zone is not None:
        trace = replace(trace, time_zone=zone_text(zone_of(log)))
    return anonymised(trace) if log.anonymise else trace
