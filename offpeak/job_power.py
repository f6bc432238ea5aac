"""What each job draws per node [W], by a rule that is chosen in words."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.jobs import Float64, Jobs
from offpeak.plural import counted
from offpeak.power_models import EXAMPLES, Classes, Constant, FromFile, Measured, PowerModel, Uniform
from offpeak.suggest import did_you_mean
from offpeak.units import parse_node_power_w

POWER_CLASSES = ("low", "middle", "high")

# Where a log has no readings: the frugalest application draws a third of the hungriest (Yang et al., SC 2013).
WITHOUT_READINGS = Uniform(100.0, 300.0)


def parse_power_model(text: str) -> PowerModel:
    """Return the rule that the text names, such as "uniform:100W-300W"; BadInput if it names none."""
    kind, _, argument = text.strip().partition(":")
    if kind not in PARSERS:
        raise BadInput(f"unknown job power {kind!r}", hint=did_you_mean(kind, PARSERS) + f"; write it like {EXAMPLES}")
    return PARSERS[kind](argument)


def default_power_model(jobs: Jobs, without_readings: Uniform = WITHOUT_READINGS) -> PowerModel:
    """Return `measured` for a log with readings, else `without_readings`."""
    return without_readings if np.isnan(jobs.node_power_w).all() else Measured()


def node_power_w(model: PowerModel, jobs: Jobs, seed: int | Generator) -> Float64:
    """Return each job's draw per node [W], float64[n], finite and above zero; the same seed gives the same draws."""
    power_w = model.draw_w(jobs, np.random.default_rng(seed))
    if not bool((np.isfinite(power_w) & (power_w > 0)).all()):
        raise BadInput("a job's power must be a finite number of watts above zero", hint=f"choose one of {EXAMPLES}")
    return power_w


def power_notes(model: PowerModel, jobs: Jobs) -> tuple[str, ...]:
    """Return what a report should say of the draws: how many are no readings though readings are used."""
    unread = int(np.count_nonzero(np.isnan(jobs.node_power_w)))
    if not isinstance(model, Measured) or not unread:
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


def _parse_measured(argument: str) -> Measured:
    if argument:
        raise BadInput(f"`measured` takes no value, but {argument!r} is given", hint="write `measured` alone")
    return Measured()


def _parse_constant(argument: str) -> Constant:
    return Constant(_parse_draw_w(argument))


def _parse_uniform(argument: str) -> Uniform:
    low, dash, high = argument.partition("-")
    if not dash:
        raise BadInput(f"{argument!r} is not a range of power", hint="write it like uniform:100W-300W")
    low_w, high_w = _parse_draw_w(low), _parse_draw_w(high)
    if low_w > high_w:
        raise BadInput(f"the range {argument!r} is upside down", hint=f"write uniform:{high}-{low}")
    return Uniform(low_w, high_w)


def _parse_classes(argument: str) -> Classes:
    return Classes(tuple(_parse_draw_w(draw) for draw in argument.split(",")))


def _parse_file(argument: str) -> FromFile:
    if not argument:
        raise BadInput("`file:` names no file", hint="write it like file:power.csv")
    return FromFile(Path(argument).expanduser())


def _parse_draw_w(text: str) -> float:
    power_w = parse_node_power_w(text)
    if power_w == 0:
        raise BadInput(f"a running job cannot draw {text}", hint="give a power above zero, such as 250W")
    return power_w


PARSERS: dict[str, Callable[[str], PowerModel]] = {
    "measured": _parse_measured,
    "constant": _parse_constant,
    "uniform": _parse_uniform,
    "classes": _parse_classes,
    "file": _parse_file,
}
