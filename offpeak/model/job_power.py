"""The power of jobs per node [W]: measured in the log, drawn by a rule, or read from the site's table.

A `PowerModel` is a frozen value that `parse_power_model` makes from text such as "uniform:100W-300W". `job_power_of`
chooses the model for one log: the setting first, then the measurements of the log, then what is assumed for the nodes.
"""

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs
from offpeak.model.node_class import NodeClass
from offpeak.model.units import HIGHEST_NODE_W, parse_node_power_w
from offpeak.settings.replay import PowerSettings
from offpeak.text import counted, did_you_mean

LARGEST_KEY = 2.0**53  # above it a float no longer holds every whole number
POWER_FILE_HEADERS = "job_id,watts_per_node", "user,watts_per_node"
HEADER_HINT = f"the first line says what the first column is: {POWER_FILE_HEADERS[0]} or {POWER_FILE_HEADERS[1]}"


def read_job_power(path: Path, jobs: Jobs) -> Float64:
    """Return each job's draw per node [W], float64[n], from CSV with one of the headers. Raises BadInput."""
    rows = csv.reader(read_bytes(path, BadInput).decode(errors="replace").splitlines())
    header = [name.strip() for name in next(rows, [])]
    if ",".join(header) not in POWER_FILE_HEADERS:
        raise BadInput(f"{path}:1: the header is {','.join(header)[:60]!r}", hint=HEADER_HINT)
    table: dict[int, float] = {}
    for line, fields in enumerate(rows, 2):
        if not fields:
            continue
        try:
            key, power_w = map(float, fields)
        except ValueError:
            key = power_w = math.nan
        if not (key.is_integer() and abs(key) <= LARGEST_KEY and 0 < power_w <= HIGHEST_NODE_W):
            what = f"not a whole number and a power above zero and below 1 MW: {','.join(fields)[:60]!r}"
            hint = "write the number and the watts per node without a unit, such as 7,250"
            raise BadInput(f"{path}:{line}: {what}", hint=hint)
        if key in table:
            raise BadInput(f"{path}:{line}: {key:.0f} is there twice", hint="keep one line for each")
        table[int(key)] = power_w
    keys = jobs.job_id if header[0] == "job_id" else jobs.user
    known = np.array(sorted(table), np.int64)
    missing = ~np.isin(keys, known)
    if missing.any():
        first = int(keys[missing][0])
        jobs_without = counted(int(np.count_nonzero(missing)), "job")
        message = f"{path}: no power in it for {jobs_without}, the first is of {header[0]} {first}"
        raise BadInput(message, hint=f"add a line such as {first},250")
    power_w_of = np.array([table[key] for key in known.tolist()])
    return power_w_of[np.searchsorted(known, keys)]


POWER_MODEL_EXAMPLES = "measured, constant:250W, uniform:100W-300W, classes:100W,200W,300W or file:FILE"


class PowerModel(Protocol):
    """A rule for the draw per node."""

    def draw_w(self, jobs: Jobs, rng: Generator, /) -> Float64:
        """Return each job's draw per node [W], float64[n]; chance comes from `rng` alone."""


@dataclass(frozen=True)
class MeasuredPower:
    """The log's readings; a job without one gets the mean of its user's measured jobs, else the mean of all."""

    def draw_w(self, jobs: Jobs, _rng: Generator, /) -> Float64:
        """Return the readings with the gaps filled. Raises BadInput if there is none."""
        known = ~np.isnan(jobs.node_power_w)
        if not known.any():
            raise BadInput("the log holds no measured power", hint=f"choose another job power: {POWER_MODEL_EXAMPLES}")
        users, user = np.unique(jobs.user, return_inverse=True)
        readings = np.bincount(user[known], minlength=len(users))
        total_w = np.bincount(user[known], jobs.node_power_w[known], minlength=len(users))
        mean_w = np.where(readings > 0, total_w / np.maximum(readings, 1), jobs.node_power_w[known].mean())
        return np.where(known, jobs.node_power_w, mean_w[user])


@dataclass(frozen=True)
class ConstantPower:
    """Every job draws the same."""

    power_w: float

    def draw_w(self, jobs: Jobs, _rng: Generator, /) -> Float64:
        """Return the one draw for each job."""
        return np.full(len(jobs), self.power_w)


@dataclass(frozen=True)
class UniformPower:
    """Any draw from `low_w` to `high_w` is as likely as another."""

    low_w: float
    high_w: float

    def draw_w(self, jobs: Jobs, rng: Generator, /) -> Float64:
        """Draw a power for each job."""
        return rng.uniform(self.low_w, self.high_w, len(jobs))


@dataclass(frozen=True)
class PowerClasses:
    """One of a few draws, each as likely as another."""

    power_w: tuple[float, ...]

    def draw_w(self, jobs: Jobs, rng: Generator, /) -> Float64:
        """Draw one of the values for each job."""
        return np.array(self.power_w)[rng.integers(len(self.power_w), size=len(jobs))]


@dataclass(frozen=True)
class TabulatedPower:
    """A table of draws by job or by user: see `power_from_file`."""

    path: Path

    def draw_w(self, jobs: Jobs, _rng: Generator, /) -> Float64:
        """Look up each job. Raises BadInput if the table misses one."""
        return read_job_power(self.path, jobs)


POWER_CLASSES = ("low", "middle", "high")

# Where a log has no readings: the frugalest application draws a third of the hungriest (Yang et al., SC 2013).
ASSUMED_POWER = UniformPower(100.0, 300.0)


def parse_power_model(text: str) -> PowerModel:
    """Return the rule that the text names, such as "uniform:100W-300W". Raises BadInput if it names none."""
    kind, _, argument = text.strip().partition(":")
    if kind not in PARSERS:
        raise BadInput(
            f"unknown job power {kind!r}", hint=did_you_mean(kind, PARSERS) + f"; write it like {POWER_MODEL_EXAMPLES}"
        )
    return PARSERS[kind](argument)


def default_power_model(jobs: Jobs, without_readings: UniformPower = ASSUMED_POWER) -> PowerModel:
    """Return `measured` for a log with readings, else `without_readings`."""
    return without_readings if np.isnan(jobs.node_power_w).all() else MeasuredPower()


def node_power_w(model: PowerModel, jobs: Jobs, seed: int | Generator) -> Float64:
    """Return each job's draw per node [W], float64[n], finite and above zero; the same seed gives the same draws."""
    power_w = model.draw_w(jobs, np.random.default_rng(seed))
    if not bool((np.isfinite(power_w) & (power_w > 0)).all()):
        raise BadInput(
            "a job's power must be a finite number of watts above zero", hint=f"choose one of {POWER_MODEL_EXAMPLES}"
        )
    return power_w


def power_notes(model: PowerModel, jobs: Jobs) -> tuple[str, ...]:
    """Return remarks on the power of jobs: how many have no reading although readings are used."""
    unread = int(np.count_nonzero(np.isnan(jobs.node_power_w)))
    if not isinstance(model, MeasuredPower) or not unread:
        return ()
    return (
        f"{counted(unread, 'job')} without measured power: the mean of the user's measured jobs is used, else of all",
    )


def power_class(node_power_w: Float64) -> NDArray[np.int8]:
    """Return 0 low, 1 middle or 2 high for each draw, int8[n]: thirds of the range; all middle if all are equal."""
    if not len(node_power_w) or node_power_w.min() == node_power_w.max():
        return np.ones(len(node_power_w), np.int8)
    edges = np.linspace(node_power_w.min(), node_power_w.max(), len(POWER_CLASSES) + 1)
    return np.digitize(node_power_w, edges[1:-1]).astype(np.int8)


def _parse_measured(argument: str) -> MeasuredPower:
    if argument:
        raise BadInput(f"`measured` does not accept a value, but {argument!r} is given", hint="write `measured` alone")
    return MeasuredPower()


def _parse_uniform(argument: str) -> UniformPower:
    low, dash, high = argument.partition("-")
    if not dash:
        raise BadInput(f"{argument!r} is not a range of power", hint="write it like uniform:100W-300W")
    low_w, high_w = _parse_draw_w(low), _parse_draw_w(high)
    if low_w > high_w:
        raise BadInput(f"the range {argument!r} is upside down", hint=f"write uniform:{high}-{low}")
    return UniformPower(low_w, high_w)


def _parse_file(argument: str) -> TabulatedPower:
    if not argument:
        raise BadInput("`file:` names no file", hint="write it like file:power.csv")
    return TabulatedPower(Path(argument).expanduser())


def _parse_draw_w(text: str) -> float:
    power_w = parse_node_power_w(text)
    if power_w == 0:
        raise BadInput(f"a running job cannot draw {text}", hint="give a power above zero, such as 250W")
    return power_w


PARSERS: dict[str, Callable[[str], PowerModel]] = {
    "measured": _parse_measured,
    "constant": lambda argument: ConstantPower(_parse_draw_w(argument)),
    "uniform": _parse_uniform,
    "classes": lambda argument: PowerClasses(tuple(map(_parse_draw_w, argument.split(",")))),
    "file": _parse_file,
}


@dataclass(frozen=True)
class JobPower:
    """The power model of jobs. `assumed`: it is neither measured nor set."""

    model: PowerModel
    jobs: Jobs
    units_per_node: int
    assumed: bool
    notes: tuple[str, ...]

    @property
    def is_drawn(self) -> bool:
        """Whether chance has a part in it, so that another seed gives other draws."""
        return isinstance(self.model, UniformPower | PowerClasses)

    def draw_w(self, seed: int | Generator) -> Float64:
        """Return each job's draw per unit [W]; another seed is another draw where the rule leaves it to chance."""
        drawn_w = node_power_w(self.model, self.jobs, seed)
        return drawn_w if isinstance(self.model, MeasuredPower) else drawn_w / self.units_per_node


LEAST_UTILISATION = 0.5
"""Where nothing is known of a job but its kind of node, it is taken to use half of the node or more."""


def job_power_of(
    jobs: Jobs, power: PowerSettings, units_per_node: int, node_class: NodeClass | None = None
) -> JobPower:
    """Return the rule of the settings, else what the log measured, else an assumption for the class of the nodes."""
    if power.job:
        model, description = parse_power_model(power.job), power.job
    else:
        assumption = assumed_power(node_class)
        model, description = default_power_model(jobs, assumption), "measured in the log"
        if model is assumption:
            description = f"the log has none, assumed {assumption.low_w:g} to {assumption.high_w:g} W per node"
    assumed = power.job is None and model != MeasuredPower()
    return JobPower(model, jobs, units_per_node, assumed, (f"power of jobs: {description}", *power_notes(model, jobs)))


def assumed_power(node_class: NodeClass | None) -> UniformPower:
    """Return what jobs are assumed to draw where nothing was measured or set."""
    if node_class is None:
        return ASSUMED_POWER
    return UniformPower(node_class.running_w(LEAST_UTILISATION), node_class.running_w(1.0))
