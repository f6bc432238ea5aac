"""What policies pay with for the energy they save: slowdown or delay, each with its axis."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from offpeak.model.arrays import Float64
from ui.report.figure import Json, axis
from ui.report.subject import Subject

MOST_TICKS = 6


@dataclass(frozen=True)
class Loss:
    """What is traded: its name, each policy's value, and the axis with its ends."""

    name: str
    value: Float64
    left: float
    right: float
    axis: Json


def slowdown_loss(subject: Subject) -> Loss:
    """Return the mean slowdown of each policy, on a logarithmic axis."""
    value = np.array([policy.outcome.mean_bounded_slowdown_by_delay for policy in subject.policies])
    left, right = float(value.min() / 1.25), float(value.max() * 1.25)
    ends = [float(np.log10(left)), float(np.log10(right))]
    # Those that plotly chooses for less than a decade do not stand in one row.
    ticks = few_ticks(left, right)
    look = _axis("mean slowdown", ends, type="log", tickvals=ticks, ticktext=[f"{tick:,.15g}" for tick in ticks])
    return Loss("mean slowdown", value, left, right, look)


def few_ticks(low: float, high: float) -> list[float]:
    """Return round numbers between the ends, which lie far enough apart on a logarithmic axis to be told apart."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    for digits in ((1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9), (1, 2, 3, 5), (1, 3), (1,)):
        ticks = [digit * 10.0**decade for decade in decades for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= MOST_TICKS:
            break
    return ticks


def delay_loss(subject: Subject) -> Loss:
    """Return how long sleeping nodes keep a job from running on average."""
    value = np.array([policy.sleep.figures.mean_boot_delay_s for policy in subject.policies])
    right = 1.06 * max(float(value.max()), 1.0)
    return Loss("mean delay by sleep", value, -0.04 * right, right, _axis("mean delay [s]", [-0.04 * right, right]))


def _axis(title: str, ends: list[float], **more: Any) -> Json:
    look = {"showline": True, "ticks": "outside", "fixedrange": True}
    return axis(title, range=ends, uirevision=title, **look, **more)
