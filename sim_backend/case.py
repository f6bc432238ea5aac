"""Makes the case of a comparison from a log and the settings: the machine, the jobs' power, the electricity."""

from dataclasses import dataclass, replace
from datetime import UTC
from zoneinfo import ZoneInfo

from offpeak.errors import BadTrace
from offpeak.job_power import default_power_model, node_power_w, parse_power_model, power_notes
from offpeak.jobs import Float64, Jobs, Rejected, Trace
from offpeak.power_models import Measured
from offpeak.prices.lay import LogSpan
from offpeak.settings import MachineSettings, PowerSettings, Settings
from sim_backend.compare import Case
from sim_backend.electricity import carbon_of, prices_of
from sim_backend.outcome import Machine
from sim_backend.traces.fitting import runnable, whole_nodes


@dataclass(frozen=True)
class Prepared:
    """A case, what was left out of it, and what a reader should know of it, in sentences."""

    case: Case
    rejected: tuple[Rejected, ...]
    notes: tuple[str, ...]


def prepare(trace: Trace, settings: Settings, *, start: str | None) -> Prepared:
    """Return the case of a log under these settings. BadTrace if no job can run, BadPrices if the prices do not fit."""
    size = machine_size(trace, settings.machine)
    in_nodes = replace(trace, jobs=whole_nodes(trace.jobs, settings.machine.processors_per_node))
    jobs, rejected = runnable(in_nodes, size)
    power_w, notes = _power(jobs, settings.power)
    log = log_span(trace, jobs)
    prices = prices_of(log, settings.prices, start)
    case = Case(
        jobs, power_w, Machine(size, settings.power.idle_w), prices, carbon_of(log, settings.carbon, prices.laid)
    )
    return Prepared(case, rejected, (*trace.notes, *notes))


def machine_size(trace: Trace, machine: MachineSettings) -> int:
    """Return the machine's size in nodes, or in the log's own unit where a node has one processor.

    As set, else as the header says, processors before nodes: both count in the log's own unit.
    """
    in_log_units = machine.nodes or trace.processors or trace.nodes
    if in_log_units is None:
        widest = int(trace.jobs.size.max(initial=0))
        raise BadTrace(
            f"{trace.name}: its header does not say how large the machine is",
            hint=f"--nodes N, in the log's own unit; its widest job asks for {widest:,}",
        )
    size = in_log_units // machine.processors_per_node
    if size == 0:
        raise BadTrace(
            f"{trace.name}: a machine of {in_log_units} processors has no node of {machine.processors_per_node}",
            hint="a smaller --processors-per-node, or a larger --nodes, in the log's own unit",
        )
    return size


def log_span(trace: Trace, jobs: Jobs) -> LogSpan:
    """Return the time that the jobs need at least, on the log's own clock."""
    return LogSpan(
        first_s=int(jobs.submit_s[0]),
        last_s=int((jobs.submit_s + jobs.runtime_s).max()),
        unix_start_s=trace.unix_start_s,
        zone=ZoneInfo(trace.time_zone) if trace.time_zone else UTC,
    )


def _power(jobs: Jobs, power: PowerSettings) -> tuple[Float64, tuple[str, ...]]:
    if power.job:
        model, said = parse_power_model(power.job), power.job
    else:
        model = default_power_model(jobs)
        said = "measured in the log" if model == Measured() else "the log has none, assumed 100 to 300 W per node"
    return node_power_w(model, jobs, power.seed), (f"power of jobs: {said}", *power_notes(model, jobs))
