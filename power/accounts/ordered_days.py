"""What the ledger tells a replay: what jobs drew, what hours cost, and on which days the queue was put in order."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo

import numpy as np
from numpy.typing import NDArray

from offpeak.ledger.prices import LedgerPrices
from offpeak.model.arrays import Int64
from offpeak.model.jobs import Trace
from offpeak.model.step_series import split
from offpeak.prices.peak import Peak, PeakRule, classify
from sim_backend.electricity import LaidSeries
from sim_backend.engine.state import PeakTimes


@dataclass(frozen=True)
class Told:
    """The energy [J] of jobs by number and start [Unix s], the prices, and the days of the time.

    `edges_unix_s` are the midnights of its days on the clock of `zone`, with both ends; `ordered` says of each day
    whether jobs were moved.
    """

    energies_j: Mapping[tuple[str, int], float]
    prices: LedgerPrices
    peak_rule: PeakRule
    zone: tzinfo
    edges_unix_s: Int64
    ordered: NDArray[np.bool_]


def with_draws(trace: Trace, energies_j: Mapping[tuple[str, int], float]) -> tuple[Trace, Int64]:
    """Return the log with the draws of the ledger where it knows them, and the ids of those jobs."""
    jobs, offset_s = trace.jobs, trace.unix_start_s or 0
    starts = zip(jobs.job_id.tolist(), (jobs.logged_start_s + offset_s).tolist(), strict=True)
    energy_j = np.array([_energy_j(trace, job, start_s, energies_j) for job, start_s in starts])
    unit_s = jobs.size * jobs.runtime_s
    known = (energy_j > 0) & (unit_s > 0)
    draw_w = np.where(known, energy_j / np.maximum(unit_s, 1), jobs.node_power_w)
    return replace(trace, jobs=replace(jobs, node_power_w=draw_w)), jobs.job_id[known]


def ordered_peaks(told: Told, laid: LaidSeries) -> PeakTimes:
    """Return when prices are dear, unknown on days on which nobody ordered the queue: then it is left as it is."""
    series, peak = classify(split(laid.series, told.edges_unix_s), told.peak_rule)
    day = np.searchsorted(told.edges_unix_s, series.start_s, side="right") - 1
    is_ordered = told.ordered[np.clip(day, 0, len(told.ordered) - 1)]
    heard = np.append(np.where(is_ordered, peak, Peak.UNKNOWN), Peak.UNKNOWN).astype(np.int8)
    return PeakTimes(np.append(series.start_s, series.end_s) - laid.offset_s, heard)


def _energy_j(trace: Trace, job: int, start_s: int, energies_j: Mapping[tuple[str, int], float]) -> float:
    # Accounts name a job of an array as its users do, some logs by its number.
    by_name = energies_j.get((trace.names.job_text(job), start_s))
    return by_name if by_name is not None else energies_j.get((str(job), start_s), np.nan)
