"""Energy, money and CO2: exact integrals over a piecewise constant series, in compiled kernels.

Power is constant while a job runs, so the cost of a job is its power times the integral of the price over its run.
The cost of idle units is their power times (units x integral over the period - sum of the jobs' units x integrals).
"""

from dataclasses import dataclass, replace

import numpy as np

from offpeak.compiled import index, kernel, part, python_first
from offpeak.model.arrays import Float64, Int64
from offpeak.model.step_series import Series, merge, running_integral, sorted_once


@dataclass(frozen=True)
class StepIntegral:
    """A series made ready to be integrated on a trace's clock: `total[i]` is the integral up to `at_s[i]`.

    `value[i]` holds from `at_s[i]` on, 0 if the series has a gap; times are trace seconds.
    """

    at_s: Int64
    value: Float64
    total: Float64


def integrate_series(series: Series, offset_s: int) -> StepIntegral:
    """Return the integral of `series`; Unix time = trace second + `offset_s`. Gaps count as 0."""
    return _integrate(series, np.nan_to_num(series.value, nan=0.0), offset_s)


def integrate_known_time(series: Series, offset_s: int) -> StepIntegral:
    """Return the integral of the seconds in which `series` has a value."""
    known = merge(replace(series, value=series.known.astype(np.float64)))
    return _integrate(known, known.value, offset_s)


def integrate_constant(value: float) -> StepIntegral:
    """Return the integral of a constant."""
    return StepIntegral(np.zeros(1, dtype=np.int64), np.full(1, value), np.zeros(1))


def _integrate(series: Series, value: Float64, offset_s: int) -> StepIntegral:
    return integrate_steps(series.start_s - offset_s, value)


def integrate_steps(at_s: Int64, value: Float64) -> StepIntegral:
    """Return the integral of a step function: `value[i]` holds from `at_s[i]` on, and the times rise."""
    return StepIntegral(at_s, value, running_integral(at_s, value[:-1]))


def multiply(one: StepIntegral, other: StepIntegral) -> StepIntegral:
    """Return the integral of the product of two series."""
    if len(one.at_s) == 1:
        return StepIntegral(other.at_s, one.value[0] * other.value, one.value[0] * other.total)
    at_s = sorted_once(one.at_s, other.at_s)
    first, second = (
        each.value[np.maximum(np.searchsorted(each.at_s, at_s, side="right") - 1, 0)] for each in (one, other)
    )
    return integrate_steps(at_s, first * second)


@part
def interval_at(at_s: Int64, hint: int, second: int) -> int:
    """Return the interval that holds `second`. The search starts at `hint`, as neighbours lie close in time."""
    last = len(at_s) - 1
    at = hint
    while at < last and at_s[index(at + 1)] <= second:
        at += 1
    while at > 0 and at_s[index(at)] > second:
        at -= 1
    return at


@part
def total_at(at_s: Int64, value: Float64, total: Float64, at: int, second: int) -> float:
    """Return the integral up to `second`, which interval `at` holds."""
    return float(total[index(at)] + value[index(at)] * (second - at_s[index(at)]))


@part
def integral_from(at_s: Int64, value: Float64, total: Float64, first: int, start_s: int, end_s: int) -> float:
    """Return the integral from `start_s`, which interval `first` holds, to `end_s`."""
    last = interval_at(at_s, first, end_s)
    return total_at(at_s, value, total, last, end_s) - total_at(at_s, value, total, first, start_s)


@python_first
@kernel
def _integrals(at_s: Int64, value: Float64, total: Float64, start_s: Int64, end_s: Int64) -> Float64:
    """Return the integrals from `start_s` to `end_s`."""
    result = np.empty(len(start_s))
    first = 0
    for job in range(len(start_s)):
        first = interval_at(at_s, first, start_s[job])
        result[job] = integral_from(at_s, value, total, first, start_s[job], end_s[job])
    return result


@python_first
@kernel
def _sums(
    at_s: Int64,
    value: Float64,
    total: Float64,
    start_s: Int64,
    end_s: Int64,
    size: Int64 | Float64,
    node_power_w: Float64,
) -> tuple[float, float, float, float]:
    """Return unit-seconds, energy [J], and the sums over jobs of their units' integrals without and with the draw."""
    busy_s = 0.0
    energy_j = 0.0
    busy = 0.0
    charged = 0.0
    first = 0
    for job in range(len(start_s)):
        first = interval_at(at_s, first, start_s[job])
        units = size[job] * integral_from(at_s, value, total, first, start_s[job], end_s[job])
        unit_s = float(size[job] * (end_s[job] - start_s[job]))
        busy_s += unit_s
        energy_j += node_power_w[job] * unit_s
        busy += units
        charged += node_power_w[job] * units
    return busy_s, energy_j, busy, charged


def integrals(meter: StepIntegral, start_s: Int64, end_s: Int64) -> Float64:
    """Return the integral of the meter's series over each [start_s, end_s), in its unit times seconds.

    Before the series' first second its first value counts, behind its last second its last.
    """
    return _integrals(meter.at_s, meter.value, meter.total, start_s, end_s)


def integral(meter: StepIntegral, start_s: int, end_s: int) -> float:
    """Return the integral over one interval."""
    return float(integrals(meter, np.array([start_s]), np.array([end_s]))[0])


@dataclass(frozen=True)
class Usage:
    """Who used the machine when: unit counts, draw per unit [W] and run of each job, and the machine around them.

    The period [begin_s, until_s) is that over which idle units are counted; it holds all runs.
    """

    size: Int64 | Float64
    node_power_w: Float64
    start_s: Int64
    end_s: Int64
    machine_size: int
    idle_w: float
    begin_s: int
    until_s: int


@dataclass(frozen=True)
class Charge:
    """The integral of power times a series: of all jobs and of the idle units, in watts times the series' unit x s."""

    jobs: float
    idle: float

    @property
    def total(self) -> float:
        """Jobs and idle units together: what the cluster used."""
        return self.jobs + self.idle


def energy_and_charge(meter: StepIntegral, usage: Usage) -> tuple[Charge, Charge]:
    """Return the energy [J] of the jobs and the idle units, and the same weighted by the meter's series."""
    series = (meter.at_s, meter.value, meter.total)
    busy_s, energy_j, busy, charged = _sums(*series, usage.start_s, usage.end_s, usage.size, usage.node_power_w)
    period = integral(meter, usage.begin_s, usage.until_s)
    idle_s = usage.machine_size * (usage.until_s - usage.begin_s) - busy_s
    energy = Charge(energy_j, usage.idle_w * idle_s)
    return energy, Charge(charged, usage.idle_w * (usage.machine_size * period - busy))


def charge(meter: StepIntegral, usage: Usage) -> Charge:
    """Return what the jobs and the idle units used, weighted by the meter's series."""
    return energy_and_charge(meter, usage)[1]


def charge_by_job(meter: StepIntegral, usage: Usage) -> Float64:
    """Return the energy of each job, weighted by the meter's series: float64[n], the parts of `Charge.jobs`."""
    return usage.size * usage.node_power_w * integrals(meter, usage.start_s, usage.end_s)
