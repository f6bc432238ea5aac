"""Makes the case of a comparison from a log and the settings: the machine, the jobs' power, the electricity."""

from dataclasses import dataclass, replace
from datetime import UTC

from offpeak.job_draws import JobPower, job_power_of
from offpeak.jobs import Jobs, Rejected, Trace
from offpeak.prices.lay import LogSpan
from offpeak.settings import Settings
from offpeak.zones import parse_zone
from sim_backend.compare import Case
from sim_backend.electricity import carbon_of, prices_of
from sim_backend.machine_size import units_of
from sim_backend.outcome import Machine
from sim_backend.traces.fitting import runnable


@dataclass(frozen=True)
class Prepared:
    """A case, what was left out of it, and what a reader should know of it, in sentences."""

    case: Case
    rejected: tuple[Rejected, ...]
    notes: tuple[str, ...]
    power: JobPower
    units_per_node: int


def prepare(trace: Trace, settings: Settings, *, start: str | None, whole: Trace | None = None) -> Prepared:
    """Return the case of a log under these settings; `whole` is the log before it was cut, if it was.

    BadTrace if no job can run, BadPrices if the prices do not fit.
    """
    units = units_of(trace, settings.machine, whole)
    jobs, rejected = runnable(replace(trace, jobs=units.jobs), units.size)
    power = job_power_of(jobs, settings.power, units.per_node)
    log = log_span(trace, jobs)
    prices = prices_of(log, settings.prices, start)
    machine = Machine(units.size, settings.power.idle_w / units.per_node)
    case = Case(jobs, power.draw_w(settings.power.seed), machine, prices, carbon_of(log, settings.carbon, prices.laid))
    return Prepared(case, rejected, (*trace.notes, *units.notes, *power.notes), power, units.per_node)


def log_span(trace: Trace, jobs: Jobs) -> LogSpan:
    """Return the time that the jobs need at least, on the log's own clock."""
    return LogSpan(
        first_s=int(jobs.submit_s[0]),
        last_s=int((jobs.submit_s + jobs.runtime_s).max()),
        unix_start_s=trace.unix_start_s,
        zone=parse_zone(trace.time_zone) if trace.time_zone else UTC,
    )
